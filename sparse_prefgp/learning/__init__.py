"""Model selection: hyperparameters and inducing inputs."""
