"""Names of files that are made from names of arms and environments."""

_LONGEST = 100  # bytes: file systems allow 255, and prefixes and endings are added


def file_name(text: str) -> str:
    """Turn any text into a part of a file's name: lower-case letters, digits and hyphens, at most 100 bytes.

    Args:
        text: A name, such as that of an environment or an arm.

    Returns:
        The part of a file's name; "unnamed" if the text has neither letters nor digits. Texts that differ in other
        signs alone have the same one.

    Examples:
        >>> file_name("atari/pong"), file_name("dqn + mico (metric.alpha=0.1)"), file_name("../settings")
        ('atari-pong', 'dqn-mico-metric-alpha-0-1', 'settings')
    """
    words = "".join(letter if letter.isalnum() else " " for letter in text).split()
    name = "-".join(words).lower().encode(errors="ignore")[:_LONGEST].decode(errors="ignore")
    return name.strip("-") or "unnamed"
