"""Files for the images and the compose file: jars to download, and the configuration of the monitoring."""
