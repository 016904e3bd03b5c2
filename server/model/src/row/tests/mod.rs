mod decided;
mod golden;
mod hostile;
mod model;
mod operands;
mod properties;
mod purging;
mod rules;
