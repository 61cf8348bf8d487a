//! Writes the kinds' definitions: `crdgen` to the standard output, `crdgen DIR` as one file a kind.

use std::io::Write;
use std::path::Path;

fn main() -> std::io::Result<()> {
    match std::env::args().nth(1) {
        None => {
            std::io::stdout().write_all(terrace_crds::render().as_bytes())?;
        }
        Some(dir) => {
            std::fs::create_dir_all(&dir)?;
            for (name, text) in terrace_crds::render::files() {
                std::fs::write(Path::new(&dir).join(name), text)?;
            }
        }
    }
    Ok(())
}
