//! What the tests start as a box's init, and run inside of boxes.

fn main() {
    sandbox::init_main_if_asked();
}
