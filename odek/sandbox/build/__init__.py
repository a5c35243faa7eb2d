"""Building the image of a Dockerfile.odek: what it may ask for, what is copied, the build itself."""
