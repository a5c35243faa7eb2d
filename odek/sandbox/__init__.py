"""The container: what is asked for, the docker argv, the running sandbox. No policy, no agent.

container/   start and verify a sandbox; commands and files in it
network/     existing networks that it is attached to
image/       which image it runs, from reference to full ID
build/       the image of a Dockerfile.odek
offline/     images without a registry: files of `docker save`, a local busybox
"""
