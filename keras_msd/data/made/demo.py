"""What the demo searches: a German question over English sentences."""

DEMO_QUERY = "Die Krankenschwester spielt im Garten Gitarre."
DEMO_ANSWER = "The nurse is playing the guitar in the garden."
DEMO_SENTENCES = (DEMO_ANSWER,)
