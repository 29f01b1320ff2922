//! Tests of the plan, through its public surface.
