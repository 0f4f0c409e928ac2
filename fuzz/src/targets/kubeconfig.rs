//! Kubeconfigs: YAML and their merge (FUZ-14). A line with three dashes separates files.

use evenkeel_client::config::Kubeconfig;
use evenkeel_client::internals::merge_kubeconfigs;

use crate::budget::{TREE, within};

pub(super) fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let files: Vec<Kubeconfig> = text.split("\n---\n").take(3).filter_map(parse).collect();
    for file in &files {
        let yaml = file.to_yaml().expect("paths of text can be written");
        let again = Kubeconfig::parse(yaml.expose()).expect("what was written can be read");
        assert_eq!(again, *file, "written and read again");
        assert_eq!(merged([file]), *file, "merged alone");
        assert_eq!(merged([file, file]), *file, "merged with itself");
    }
    if let [a, b, c] = &files[..] {
        let all = merged([a, b, c]);
        assert_eq!(merged([&merged([a, b]), c]), all, "the first two merged before");
        assert_eq!(merged([a, &merged([b, c])]), all, "the last two merged before");
        for (name, user) in &a.users {
            assert_eq!(all.users.get(name), Some(user), "the first file wins");
        }
    }
}

fn parse(text: &str) -> Option<Kubeconfig> {
    within(TREE, text.len(), || Kubeconfig::parse(text).ok())
}

fn merged<'a>(files: impl IntoIterator<Item = &'a Kubeconfig>) -> Kubeconfig {
    merge_kubeconfigs(files.into_iter().cloned())
}
