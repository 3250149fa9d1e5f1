"""What the values stand on: decompositions with derivative rules, and checks of arguments."""
