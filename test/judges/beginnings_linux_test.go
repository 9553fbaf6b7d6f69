package judges

import (
	_ "embed"
	"encoding/json"
	"testing"

	"codeconnect.vmworld.com/vmgroup/sync/plan"

	"codeconnect.vmworld.com/vmgroup/test/must"
)

//go:embed beginnings.py
var beginnings string

// TestCloudInitActsOnTheUserDataThatIsRecognized compares the condition UserDataUnrecognized with cloud-init: the condition must be set for user
// data that no release's cloud-init acts on, and only for such user data. (It leaves out #include and #part-handler, which need a server or
// Python, and the formats that only cloudbase-init has.)
func TestCloudInitActsOnTheUserDataThatIsRecognized(t *testing.T) {
	const config, jinja = "#cloud-config\npackages: [marker]\n", "## template: jinja\n"
	const script = "#!/usr/bin/python3\nopen('/tmp/judge-said/marker', 'w')\n"
	boothook := "#cloud-boothook\n" + script
	archive := "#cloud-config-archive\n- type: text/cloud-config\n  content: |\n    packages: [marker]\n"
	mime := "Content-Type: multipart/mixed; boundary=\"x\"\nMIME-Version: 1.0\n\n--x\nContent-Type: text/cloud-config\n\n#cloud-config\npackages: [marker]\n\n--x--\n"
	texts := []string{
		config, "\n \n" + config, "#Cloud-Config\npackages: [marker]\n", "packages: [marker]\n", "# a comment\n" + config,
		script, "\n" + script, " " + script, boothook, "\n" + boothook, archive, mime, "\n" + mime, "# a comment\n" + mime, config + "# MIME-Version:\n", "#upstart-job\n" + script,
		jinja + config, jinja + "\n" + config, jinja + script, jinja + "\n" + script, jinja + "# a comment\n" + config,
		jinja + "{% set x = 1 %}\n" + config, jinja + "{% set x = 1 %}\n" + script, jinja + "{{ '#cloud-config' }}\npackages: [marker]\n",
		jinja + "packages: [marker]\n", jinja + boothook, jinja + archive, jinja + "#upstart-job\n" + script, jinja + mime,
		"\n" + jinja + config, " " + jinja + config, "# a comment\n" + jinja + config, "## Template: Jinja\n" + config, "## template:jinja\n" + config,
		"##template: jinja\n" + config, "## template: jinja2\n" + config, "## template: jinja \n" + config, "## template: jinja\r\n" + config, "## template: jinja", jinja,
	}
	list, err := json.Marshal(texts)
	must.Succeed(t, err)
	r := plan.UserDataRef{Kind: "Secret", Namespace: "shop", Name: "ud", Key: "user-data"}
	acted := make([]bool, len(texts))
	for _, d := range debians(t) {
		out, said, err := d.run(t, []string{"BEGINNINGS=" + string(list)}, beginnings, "/usr/bin/python3", "-")
		var acts []bool
		if err != nil || json.Unmarshal([]byte(out), &acts) != nil || len(acts) != len(texts) {
			t.Fatalf("Debian %s: %v: %s: %s", d.release, err, out, said[max(0, len(said)-2000):])
		}
		for i, is := range acts {
			acted[i] = acted[i] || is
		}
	}
	for i, text := range texts {
		if recognized := r.Take([]byte(text)).Unrecognized == ""; recognized != acted[i] {
			t.Errorf("%q: a cloud-init acts on it: %t, but the server recognizes it: %t", text, acted[i], recognized)
		}
	}
}
