"""Memory of images, videos and audio: encoder profiling, caches, limits."""
