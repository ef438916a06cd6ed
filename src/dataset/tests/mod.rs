//! Tests of the data sets as their users see them.
