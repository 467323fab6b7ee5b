"""What every room needs and none is about: checks, linear algebra, the machine."""
