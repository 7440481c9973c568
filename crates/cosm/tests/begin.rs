//! What comes before the first request: `cosm init`, manual pages, and what shells complete by.

mod support;

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use support::program::{COSM, run};

fn out(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn error(output: &Output, code: i32) -> String {
    let said = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!((output.status.code(), said.lines().count()), (Some(code), 1), "{said}");
    said
}

/// `None`, and a line that says so, where the program is not installed.
fn with(program: &str, words: &[&str]) -> Option<Output> {
    match Command::new(program).args(words).stdin(Stdio::null()).output() {
        Ok(output) => Some(output),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            eprintln!("{program} is not installed: what it would say is not tested");
            None
        }
        Err(error) => panic!("{program}: {error}"),
    }
}

#[test]
fn a_first_configuration_passes_the_check_and_replaces_nothing() {
    let folder = tempfile::tempdir().unwrap();
    for kind in ["forward", "reverse"] {
        let path = folder.path().join(format!("{kind}.toml"));
        let path = path.to_str().unwrap();
        let cache = folder.path().join(format!("{kind}.cache"));
        let init = ["init", kind, path, "--cache", cache.to_str().unwrap()];
        assert_eq!(out(&run(init)), "");
        let text = fs::read_to_string(path).unwrap();
        let is_reverse = text.lines().any(|line| line.starts_with("origin = "));
        assert_eq!(is_reverse, kind == "reverse", "{text}");
        assert!(text.contains("\n# Maximum size of each cache on disk"), "{text}");
        assert_eq!(out(&run(["serve", "--config", path, "--check"])), "ok\n");
        assert!(!cache.exists(), "nothing but the file is made");

        fs::write(path, "cmax = 2\n").unwrap();
        let said = error(&run(init), 1);
        assert!(said.contains(path) && said.contains("--force"), "{said}");
        assert_eq!(fs::read_to_string(path).unwrap(), "cmax = 2\n");
        assert_eq!(out(&run([&init[..], &["--force"]].concat())), "");
        // What is free may be another by now.
        let names = |text: &str| -> Vec<String> {
            text.lines().map(|line| line.split(" = ").next().unwrap_or_default().to_owned()).skip(1).collect()
        };
        assert_eq!(names(&fs::read_to_string(path).unwrap()), names(&text));
        // Without a file's name it is printed.
        let printed = out(&run(["init", kind, "--cache", cache.to_str().unwrap()]));
        assert_eq!(names(&printed), names(&text));
    }
    let said = error(&run(["init", "sideways"]), 2);
    assert!(said.contains("sideways"), "{said}");
    let said = error(&run(["init", "forward", "/no/such/folder/cosm.toml"]), 1);
    assert!(said.contains("/no/such/folder"), "{said}");
}

#[test]
fn a_cache_that_is_there_keeps_its_size() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("cosm.cache");
    fs::write(&cache, "not empty").unwrap();
    let printed = out(&run(["init", "forward", "--cache", cache.to_str().unwrap()]));
    assert!(printed.contains("\ncache-size = \"auto\"\n"), "{printed}");
}

#[test]
fn every_command_has_a_manual_page_that_formatters_accept() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(out(&run(["man", "--out", folder.path().to_str().unwrap()])), "");
    let mut names: Vec<String> =
        fs::read_dir(&folder).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    for name in
        ["cosm.1", "cosm-serve.1", "cosm-init.1", "cosm-inspect.1", "cosm-lab.1", "cosm-lab-compare.1"]
    {
        assert!(names.iter().any(|other| other == name), "{name} is not in {names:?}");
    }
    let text = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
    let serve = text("cosm-serve.1");
    assert_eq!(out(&run(["man", "serve"])).trim_end(), serve.trim_end());
    for setting in cosm::settings::TABLE {
        let option = format!("\\fB\\-\\-{}\\fR", setting.name.replace('-', "\\-"));
        assert!(serve.contains(&option), "{option} is not in cosm-serve.1");
    }
    // What refers to another page refers to one that is there.
    for name in &names {
        for line in text(name).lines().filter(|line| line.starts_with("cosm\\-") && line.ends_with("(1)")) {
            let page = line.replace('\\', "").replace("(1)", ".1");
            assert!(names.contains(&page), "{name} names {page}");
        }
        let path = folder.path().join(name);
        let path = path.to_str().unwrap();
        if let Some(lint) = with("mandoc", &["-T", "lint", "-W", "warning", path]) {
            let said = String::from_utf8_lossy(&lint.stdout).into_owned();
            assert_eq!(said, "", "{name}");
        }
        if let Some(formatted) = with("groff", &["-man", "-Kutf8", "-Tutf8", "-ww", "-z", path]) {
            assert_eq!(String::from_utf8_lossy(&formatted.stderr), "", "{name}");
        }
    }
    let said = error(&run(["man", "no-such"]), 2);
    assert!(said.contains("`no-such`"), "{said}");
    let said = error(&run(["man", "--out", "/no/such/folder"]), 1);
    assert!(said.contains("/no/such/folder"), "{said}");
}

#[test]
fn bash_completes_commands_options_and_values() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("cosm.bash");
    fs::write(&script, out(&run(["completions", "bash"]))).unwrap();
    fs::write(folder.path().join("my file.toml"), "").unwrap();
    symlink(COSM, folder.path().join("cosm")).unwrap();
    let complete = |line: &str| {
        let driver =
            "source ./cosm.bash; set -f; read -ra COMP_WORDS <<< \"$1\"; [[ $1 == *' ' ]] && COMP_WORDS+=('')
            COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); COMP_LINE=$1; COMP_POINT=${#1}
            compopt() { :; }
            _cosm cosm \"${COMP_WORDS[COMP_CWORD]}\" \"${COMP_WORDS[COMP_CWORD-1]}\"
            printf '%s\\n' \"${COMPREPLY[@]}\"";
        let bash = Command::new("bash")
            .args(["--norc", "-c", driver, "bash", line])
            .current_dir(&folder)
            .output()
            .unwrap();
        assert_eq!(String::from_utf8_lossy(&bash.stderr), "", "{line}");
        let text = String::from_utf8(bash.stdout).unwrap();
        text.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    if with("bash", &["--version"]).is_none() {
        return;
    }
    let has = |line: &str, word: &str| {
        let found = complete(line);
        assert!(found.iter().any(|other| other == word), "{line}: {word} is not in {found:?}");
    };
    has("cosm ", "serve");
    has("cosm se", "serve");
    has("cosm lab com", "compare");
    has("cosm init ", "reverse");
    for setting in cosm::settings::TABLE {
        let option = format!("--{}", setting.name);
        has(&format!("cosm serve {option}"), &option);
    }
    assert_eq!(complete("cosm serve --admission "), ["worth", "all"]);
    assert_eq!(complete("cosm serve --workers a"), ["auto"]);
    assert_eq!(complete("cosm serve --config my"), ["my file.toml"]);
    assert_eq!(complete("cosm completions z"), ["zsh"]);
}

#[test]
fn other_shells_read_what_they_complete_by() {
    let folder = tempfile::tempdir().unwrap();
    for (shell, check) in [("zsh", "-n"), ("fish", "--no-execute")] {
        let path = folder.path().join(shell);
        fs::write(&path, out(&run(["completions", shell]))).unwrap();
        assert!(fs::read_to_string(&path).unwrap().contains("cache-size"));
        if let Some(read) = with(shell, &[check, path.to_str().unwrap()]) {
            assert!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr));
        }
    }
    if Path::new("/usr/bin/fish").exists() {
        let script =
            format!("source {}; complete -C 'cosm serve --adm'", folder.path().join("fish").display());
        let completed = with("fish", &["--no-config", "-c", &script]).unwrap();
        let text = String::from_utf8_lossy(&completed.stdout).into_owned();
        for option in ["--admin\t", "--admission\t"] {
            assert!(text.contains(option), "{text}");
        }
    }
    let said = error(&run(["completions", "tcsh"]), 2);
    assert!(said.contains("tcsh"), "{said}");
}
