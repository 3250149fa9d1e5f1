"""What the values stand on: decompositions with derivative rules of their own, and checks of arguments."""
