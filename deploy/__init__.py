"""What the image and the compose file are made of, besides the product: jars to fetch, and what watches it."""
