"""What code runs on: compiled code, settings of JAX, interrupts, caches, the processor."""
