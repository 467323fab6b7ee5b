"""What a fitted model says: rankings, predictions, scores and reasons."""
