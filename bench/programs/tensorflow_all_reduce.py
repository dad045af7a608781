"""All-reduce (float32, sum) of TensorFlow's RING: one JSON line with the time of each size, for bench/peers.

Every process is one task of a MultiWorkerMirroredStrategy with RING, started by the caller with its TF_CONFIG; task 0
prints. The time is that of the collective operation alone, in a tf.function of its own. Its result is a new tensor, as
the strategy's is. Checked and timed like mpi_all_reduce.c.
"""
import json
import os
import time

import tensorflow as tf
from tensorflow.python.ops import collective_ops

from all_reduce import run_sizes

PERIOD = 1021
GROUP = 1000  # a key far from those that the strategy hands out


class Ring:
    def __init__(self):
        task = json.loads(os.environ["TF_CONFIG"])
        self.rank, self.workers = task["task"]["index"], len(task["cluster"]["worker"])
        options = tf.distribute.experimental.CommunicationOptions(
            implementation=tf.distribute.experimental.CommunicationImplementation.RING)
        self.strategy = tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)
        if self.strategy.num_replicas_in_sync != self.workers:
            raise SystemExit(f"{self.strategy.num_replicas_in_sync} replicas take part, not {self.workers}")
        self.instances, self.programs = 0, {}
        self.token = tf.zeros(1)

    def collective(self, shape, type, merge):
        """One operation for each shape and type: an instance of a collective may not change them."""
        key = (tuple(shape), type, merge)
        if key not in self.programs:
            self.instances += 1
            instance = self.instances

            @tf.function(input_signature=[tf.TensorSpec(shape, type)], autograph=False)
            def program(value):
                return collective_ops.all_reduce_v2(value, self.workers, GROUP, instance, merge_op=merge, final_op="Id",
                                                    communication_hint="RING")

            self.programs[key] = program.get_concrete_function()
        return self.programs[key]

    def all_reduce(self, value, merge="Add"):
        return self.collective(value.shape, value.dtype, merge)(value)

    def allocate(self, count):
        self.pattern = tf.cast(tf.range(count) % PERIOD, tf.float32)
        self.filling = self.pattern + float(self.rank)
        self.result = None

    def fill(self):
        self.vector = self.filling * 1.0

    def clear(self):
        self.vector = tf.zeros_like(self.filling)

    def meet(self):
        self.all_reduce(self.token).numpy()

    def reduce(self):
        self.result = None
        operation = self.collective(self.vector.shape, self.vector.dtype, "Add")
        start = time.perf_counter()
        self.result = operation(self.vector)
        return time.perf_counter() - start

    def count_wrong(self):
        expected = self.pattern * self.workers + self.workers * (self.workers - 1) // 2
        wrong = tf.reduce_sum(tf.cast(self.result != expected, tf.int32))
        return int(self.all_reduce(tf.reshape(wrong, [1]))[0])

    def slowest(self, values):
        return self.all_reduce(tf.constant(values, tf.float64), "Max").numpy().tolist()

    def total(self, value):
        return float(self.all_reduce(tf.constant([value], tf.float64))[0])


run_sizes(__doc__, Ring)
