//! Every interleaving of the small pieces where threads meet, explored by loom.
