"""The runtime environment: compiled code, JAX settings, interrupts, caches, the processor."""
