"""Horovod's names for tf.keras: those of lockstep.keras."""
from ...keras import *
from . import callbacks, elastic
