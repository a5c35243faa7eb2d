"""odek serve: live sessions, and the HTTP server that shows them to a browser."""
