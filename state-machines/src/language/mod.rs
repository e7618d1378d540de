//! A definition as it is written: read into types, checked by the
//! specification's rules, laid out as a graph, drawn.
