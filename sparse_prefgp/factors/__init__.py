"""What one factor of a duel is: truncated normals, expectations, links, sites."""
