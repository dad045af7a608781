"""Those of lockstep.keras.elastic."""
from ...keras.elastic import *

