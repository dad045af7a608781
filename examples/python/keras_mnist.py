"""A small network on drawn digits in Keras on TensorFlow: lockstep run -np 2 -- python3 keras_mnist.py

It is written for Horovod; only the import is lockstep's."""
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import keras
import numpy as np
import tensorflow as tf

import lockstep.keras as hvd

hvd.init()
BATCH, EPOCHS = 32, 4
drawn = np.random.default_rng(1)
patterns = drawn.normal(size=(10, 12, 12, 1)).astype("float32")
labels = drawn.integers(0, 10, 1280)
images = patterns[labels] + 0.7 * drawn.normal(size=(1280, 12, 12, 1)).astype("float32")

data = tf.data.Dataset.from_tensor_slices((images, labels)).shard(hvd.size(), hvd.rank())
data = data.repeat().shuffle(512, seed=hvd.rank()).batch(BATCH)
steps_per_epoch = len(images) // BATCH // hvd.size()

keras.utils.set_random_seed(hvd.rank())
model = keras.Sequential([keras.Input((12, 12, 1)), keras.layers.Conv2D(8, 3, activation="relu"), keras.layers.MaxPooling2D(),
                          keras.layers.Flatten(), keras.layers.Dense(32, activation="relu"), keras.layers.Dense(10)])
optimizer = hvd.DistributedOptimizer(keras.optimizers.Adam(0.001 * hvd.size()))
model.compile(optimizer=optimizer, loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
callbacks = [hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback(),
             hvd.callbacks.LearningRateWarmupCallback(initial_lr=0.001 * hvd.size(), warmup_epochs=2)]
history = model.fit(data, steps_per_epoch=steps_per_epoch, epochs=EPOCHS, callbacks=callbacks,
                    verbose=2 if hvd.rank() == 0 else 0)

everybody = hvd.allgather_object([float(np.sum(weight, dtype=np.float64)) for weight in model.get_weights()])
assert all(other == everybody[0] for other in everybody), "the ranks have different weights"
if hvd.rank() == 0:
    print(f"accuracy {history.history['accuracy'][-1]:.4f}")
