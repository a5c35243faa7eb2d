"""One file for a host without network: odek, its images and its settings behind a script that installs them."""
