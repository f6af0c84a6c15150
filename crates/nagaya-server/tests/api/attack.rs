//! Every route from the wrong side of the wall.
