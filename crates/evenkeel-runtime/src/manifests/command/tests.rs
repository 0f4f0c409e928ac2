use super::*;

fn parsed(arguments: &[&str]) -> Result<Subcommand, String> {
    parse(arguments.iter().map(|argument| (*argument).to_owned()))
}

#[test]
fn scf_013_arguments_choose_a_subcommand() {
    assert_eq!(parsed(&["run"]), Ok(Subcommand::Run));
    assert_eq!(parsed(&["manifests"]), Ok(Subcommand::Write("manifests".into())));
    assert_eq!(parsed(&["manifests", "--check"]), Ok(Subcommand::Check("manifests".into())));
    for arguments in [["manifests", "--check", "--dir", "d"], ["manifests", "--dir", "d", "--check"]] {
        assert_eq!(parsed(&arguments), Ok(Subcommand::Check("d".into())));
    }
    assert_eq!(parsed(&["deploy"]), Ok(Subcommand::Deploy));
    for (arguments, problem) in [
        (&[][..], "a subcommand is missing"),
        (&["start"], "there is no subcommand \"start\""),
        (&["run", "--check"], "run has no argument \"--check\""),
        (&["manifests", "--dir"], "--dir needs a folder"),
        (&["manifests", "all"], "manifests has no argument \"all\""),
    ] {
        assert_eq!(parsed(arguments), Err(problem.to_owned()));
    }
}
