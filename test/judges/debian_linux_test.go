package judges

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// releases are the Debian releases to try. A release with the same versions as an earlier one is left out.
var releases = []string{"bookworm", "trixie", "testing", "sid"}

// packages are the Debian packages of the judges.
var packages = []string{"cloud-init", "netplan.io", "ansible-core", "prometheus"}

// debian is a directory with the judges of one release and their dependencies. Tests share the directory, so they don't run in parallel.
type debian struct {
	release, root string
	versions      string // of the packages
}

// debians are the releases that differ, unpacked in the user's cache directory, or JUDGES_CACHE.
func debians(t *testing.T) []debian {
	t.Helper()
	all, lack := gather()
	for _, d := range all {
		t.Logf("Debian %s: %s", d.release, d.versions)
	}
	if lack != nil {
		lacks(t, "Debian's judges: %v", lack)
	}
	return all
}

var gather = sync.OnceValues(func() (all []debian, _ error) {
	if os.Getuid() != 0 {
		return nil, fmt.Errorf("chroot needs root")
	}
	for _, tool := range []string{"apt-get", "dpkg-deb", "tar", "ldconfig"} {
		if _, err := exec.LookPath(tool); err != nil {
			return nil, err
		}
	}
	cache, err := os.UserCacheDir()
	if err != nil && os.Getenv("JUDGES_CACHE") == "" {
		return nil, err
	}
	cache = cmp.Or(os.Getenv("JUDGES_CACHE"), filepath.Join(cache, "vmgroup-judges"))
	mirror, err := mirrorOfThisMachine()
	if err != nil {
		return nil, err
	}
	for _, release := range releases {
		known := func(versions string) bool {
			return slices.ContainsFunc(all, func(o debian) bool { return o.versions == versions })
		}
		d, err := fetch(filepath.Join(cache, release), mirror, release, known)
		if err != nil {
			return all, fmt.Errorf("%s: %w", release, err)
		}
		if !known(d.versions) {
			all = append(all, d)
		}
	}
	return all, nil
})

// output runs a program of this machine.
func output(env []string, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	var out, said bytes.Buffer
	c := exec.CommandContext(ctx, name, args...)
	c.Env, c.Stdout, c.Stderr = append(os.Environ(), env...), &out, &said
	if err := c.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", name, strings.Join(args[:min(len(args), 4)], " "), err, said.String()[max(0, said.Len()-500):])
	}
	return out.String(), nil
}

// mirrorOfThisMachine returns the mirror from which this machine, if it is a Debian, gets its packages.
func mirrorOfThisMachine() (string, error) {
	release, err := output(nil, "sh", "-c", `. /etc/os-release && echo "$VERSION_CODENAME"`)
	if err != nil {
		return "", err
	}
	targets, err := output(nil, "apt-get", "indextargets", "--format", "$(RELEASE) $(COMPONENT) $(REPO_URI)", "Created-By: Packages")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(targets) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == strings.TrimSpace(release) && fields[1] == "main" {
			return fields[2], nil
		}
	}
	return "", fmt.Errorf("this machine's apt has no mirror of Debian %s", release)
}

// fresh is how long fetched packages are reused before they are fetched again.
const fresh = 24 * time.Hour

// fetch downloads the packages of a release with an apt configuration of its own, and unpacks them unless another release has the same
// versions.
func fetch(dir, mirror, release string, known func(versions string) bool) (debian, error) {
	d := debian{release: release, root: filepath.Join(dir, "root")}
	unpacked := filepath.Join(dir, "unpacked") // this file lists the versions, once the packages are unpacked
	if is, err := os.Stat(unpacked); err == nil && time.Since(is.ModTime()) < fresh {
		versions, err := os.ReadFile(unpacked)
		d.versions = string(versions)
		if err != nil || hasAll(d.versions) {
			return d, err
		}
		d.versions = "" // the packages were unpacked for an older list
	}
	env := []string{"APT_CONFIG=" + filepath.Join(dir, "apt.conf"), "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C"}
	for _, place := range []string{"lists/partial", "cache/archives/partial"} {
		if err := os.MkdirAll(filepath.Join(dir, place), 0o755); err != nil {
			return d, err
		}
	}
	for name, text := range map[string]string{
		"sources.list": fmt.Sprintf("deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] %s %s main\n", mirror, release),
		"status":       "", // an empty dpkg status, so that apt fetches all dependencies
		"apt.conf": fmt.Sprintf("Dir::Etc::sourcelist %q;\nDir::Etc::sourceparts \"-\";\nDir::State::lists %q;\nDir::State::status %q;\nDir::Cache %q;\n",
			dir+"/sources.list", dir+"/lists", dir+"/status", dir+"/cache") + "APT::Sandbox::User \"root\";\nAcquire::Languages \"none\";\nAcquire::Retries \"3\";\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return d, err
		}
	}
	if _, err := output(env, "apt-get", "-q", "update"); err != nil {
		return d, err
	}
	install := slices.Concat([]string{"-qy", "--no-install-recommends"}, []string{"install"}, packages)
	foreseen, err := output(env, "apt-get", append([]string{"--simulate"}, install...)...)
	if err != nil {
		return d, err
	}
	for _, name := range packages {
		found := regexp.MustCompile(`(?m)^Inst ` + regexp.QuoteMeta(name) + ` \((\S+) `).FindStringSubmatch(foreseen)
		if found == nil {
			return d, fmt.Errorf("apt-get would not install the package %s", name)
		}
		d.versions += name + " " + found[1] + " "
	}
	if known(d.versions) {
		return d, nil
	}
	_ = os.Remove(unpacked)
	if _, err := output(env, "apt-get", "clean"); err != nil {
		return d, err
	}
	if _, err := output(env, "apt-get", append([]string{"--download-only"}, install...)...); err != nil {
		return d, err
	}
	if _, err := output(append(env, "DIR="+dir), "sh", "-euc", unpack); err != nil {
		return d, err
	}
	if _, err := output(env, "apt-get", "clean"); err != nil {
		return d, err
	}
	return d, os.WriteFile(unpacked, []byte(d.versions), 0o644)
}

// hasAll reports whether versions name all packages.
func hasAll(versions string) bool {
	fields := strings.Fields(versions) // names and versions alternate
	return !slices.ContainsFunc(packages, func(name string) bool { return !slices.Contains(fields, name) })
}

// unpack unpacks the packages, and does what their installation scripts would do, as far as the judges need it.
const unpack = `
cd "$DIR"
rm -rf --one-file-system root
mkdir -p root/usr/bin root/usr/sbin root/usr/lib root/usr/lib64 root/tmp root/dev root/run root/etc/ssl/certs
for d in bin sbin lib lib64; do ln -s usr/$d root/$d; done
for deb in cache/archives/*.deb; do
	dpkg-deb --fsys-tarfile "$deb" | tar -x -C root -f - --keep-directory-symlink --no-same-owner \
		--exclude=./usr/share/doc --exclude=./usr/share/man --exclude=./usr/share/locale
done
ldconfig -r root
cat root/usr/share/ca-certificates/mozilla/*.crt >root/etc/ssl/certs/ca-certificates.crt
printf 'root:x:0:0:root:/root:/bin/sh\nsystemd-network:x:0:0::/:/bin/sh\n' >root/etc/passwd
printf 'root:x:0:\nsystemd-network:x:0:\n' >root/etc/group
: >root/dev/null
`

// run runs a program with the directory as its root directory, and with a host name and a network of its own.
func (d debian) run(t *testing.T, env []string, stdin string, args ...string) (out, said string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	var stdout, stderr bytes.Buffer
	c := exec.CommandContext(ctx, args[0], args[1:]...)
	c.Dir, c.Stdin, c.Stdout, c.Stderr = "/", strings.NewReader(stdin), &stdout, &stderr
	c.Env = append([]string{"PATH=/usr/sbin:/usr/bin", "HOME=/root", "USER=root", "LC_ALL=C.UTF-8"}, env...)
	c.SysProcAttr = &syscall.SysProcAttr{Chroot: d.root, Cloneflags: syscall.CLONE_NEWUTS | syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	err = c.Run()
	return stdout.String(), stderr.String(), err
}
