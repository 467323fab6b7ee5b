"""The page that asks people which of two things they prefer, and keeps every answer."""
