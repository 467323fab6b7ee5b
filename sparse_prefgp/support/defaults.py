"""Numbers that stand where a person gives none, wherever they are asked for."""

# Inducing inputs, where there are as many distinct items.
INDUCING = 128
# Of the prior variance of the duels, what a number of inducing inputs that is found may leave
# unexplained.
SHARE = 0.01
# What ten iterations must bring, in nats a duel: a fiftieth of what a held-out score of thousands
# of duels can tell apart.
LEAST_GAIN = 1e-5


def number_of_inducing(distinct: int, asked: object = None) -> int:
    """m: the whole number that is asked for, else 128, or all distinct items if fewer."""
    return asked if isinstance(asked, int) else min(INDUCING, distinct)
