//! Writes what is generated from the kinds: the definitions to the standard output, or
//! `crdgen --chart DIR` as one file a kind, `crdgen --reference FILE` as the reference of every field.

use std::io::Write;
use std::path::Path;

fn main() -> std::io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => std::io::stdout().write_all(terrace_crds::render().as_bytes()),
        ["--chart", dir] => {
            std::fs::create_dir_all(dir)?;
            terrace_crds::render::files()
                .iter()
                .try_for_each(|(name, text)| std::fs::write(Path::new(dir).join(name), text))
        }
        ["--reference", file] => std::fs::write(file, terrace_crds::reference::reference()),
        _ => Err(std::io::Error::other("usage: crdgen [--chart DIR | --reference FILE]")),
    }
}
