//! Answers the requests on the lines of its input, as the panels do in a browser. Tests compare both.

use std::io::{self, BufRead};

fn main() -> io::Result<()> {
    for request in io::stdin().lock().lines() {
        println!("{}", learn_browser::answer(&request?));
    }
    Ok(())
}
