//! Units as users write and read them: bytes, rates, durations.
