"""Horovod's names for tf.keras: those of lockstep.keras."""
from ...keras import *
from ...keras import __getattr__
from . import callbacks, elastic
