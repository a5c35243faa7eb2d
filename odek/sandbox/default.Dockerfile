# The image a sandbox runs when neither `sandbox_image` nor `Dockerfile.odek` names one.
FROM alpine:3.22@sha256:2e0b81d60597f449baa56dc25d355367869d2dca4cd57e866f1e2b52af3eb55f
