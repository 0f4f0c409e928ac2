use crate::remote::copy::remote_path::RemotePath;

#[test]
fn a_path_is_a_directory_and_a_name() {
    let cases = [
        ("/var/log/app", "/var/log", "./app"),
        ("/etc", "/", "./etc"),
        ("file", ".", "./file"),
        ("a/-rf", "a", "./-rf"),
        ("/var/log/", "/var/log/", "."),
        ("/", "/", "."),
        ("..", "..", "."),
        ("/a/..", "/a/..", "."),
    ];
    for (path, directory, argument) in cases {
        let split = RemotePath::split(path).unwrap();
        assert_eq!((&*split.directory, &*split.argument()), (directory, argument), "{path}");
    }
    assert!(RemotePath::split("").is_err());
    assert!(RemotePath::split("a\0b").is_err());
}

#[test]
fn a_destination_needs_a_name() {
    let named = |path| RemotePath::split_named(path).map_err(|error| error.to_string());
    assert_eq!(named("/srv/www/"), Ok(("/srv".to_owned(), "www".to_owned())));
    assert_eq!(named("file"), Ok((".".to_owned(), "file".to_owned())));
    for path in ["", "/", ".", "..", "/srv/.."] {
        assert!(named(path).unwrap_err().contains("must end with a name"), "{path}");
    }
}
