"""Checks of a machine with a GPU; they share the benchmarks' processes and the tests' builds and jobs."""
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / folder) for folder in ("bench", "tests", "tests/recovery")]
