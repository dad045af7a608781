"""Those of lockstep.keras.callbacks."""
from ...keras.callbacks import *
from ...keras.callbacks import __getattr__
