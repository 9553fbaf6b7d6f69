package judges

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v2"

	"codeconnect.vmworld.com/vmgroup/test/must"
)

func init() { yaml.FutureLineWrap() } // without wrapped lines, the planted defects can replace whole expressions

// rules returns the rules of the monitoring component as a Prometheus rules file.
func rules(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repository, "charts/vmgroup/files/monitoring/prometheusrule.yaml"))
	must.Succeed(t, err)
	var object struct{ Spec yaml.MapSlice }
	must.Succeed(t, yaml.Unmarshal(text, &object))
	file, err := yaml.Marshal(object.Spec)
	must.Succeed(t, err)
	return string(file)
}

// promtool runs promtool's check and tests of the rules, and returns its first error.
func (d debian) promtool(t *testing.T, rules, tests string) string {
	t.Helper()
	must.Succeed(t, os.WriteFile(filepath.Join(d.root, "tmp", "rules.yaml"), []byte(rules), 0o644))
	must.Succeed(t, os.WriteFile(filepath.Join(d.root, "tmp", "alerts.yaml"), []byte(tests), 0o644))
	for _, args := range [][]string{{"check", "rules", "/tmp/rules.yaml"}, {"test", "rules", "/tmp/alerts.yaml"}} {
		if out, said, err := d.run(t, nil, "", append([]string{"/usr/bin/promtool"}, args...)...); err != nil {
			return err.Error() + ": " + out + said
		}
	}
	return ""
}

// only returns the one test with that text in its name: each takes promtool a second.
func only(t *testing.T, tests, name string) string {
	t.Helper()
	all := strings.Split(tests, "\n- name: ")
	kept := all[:1:1]
	for _, one := range all[1:] {
		if called, _, _ := strings.Cut(one, "\n"); strings.Contains(called, name) {
			kept = append(kept, one)
		}
	}
	if len(kept) != 2 {
		t.Fatalf("%d tests are called %q", len(kept)-1, name)
	}
	return strings.Join(kept, "\n- name: ")
}

func TestPromtoolSeesEachAlertFireWhenItShould(t *testing.T) {
	all := debians(t)
	text, err := os.ReadFile("testdata/alerts.yaml")
	must.Succeed(t, err)
	rules, tests := rules(t), string(text)
	for line := range strings.Lines(rules) {
		if name, is := strings.CutPrefix(strings.TrimSpace(line), "- alert: "); is && strings.Count(tests, "alertname: "+name+"\n") == 0 {
			t.Errorf("testdata/alerts.yaml has no test of %s", name)
		}
	}
	for i, d := range all {
		if said := d.promtool(t, rules, tests); said != "" {
			t.Errorf("Debian %s: %s; want none", d.release, said)
		}
		if i > 0 {
			continue
		}
		for what, c := range map[string]struct{ seenBy, bent string }{
			"no expression":                   {"all is well", strings.Replace(rules, "== 0", "==", 1)},
			"another phase":                   {"a template is deleted", strings.Replace(rules, `phase="ERROR", scope="group"} unless on (instance) vmgroup:replica`, `phase="Error", scope="group"} unless on (instance) vmgroup:replica`, 1)},
			"a longer wait":                   {"the account loses a privilege", strings.Replace(rules, "for: 10m", "for: 20m", 1)},
			"any replica knows vCenter":       {"one replica of two is down", strings.Replace(rules, "and on (instance) sum by (instance) (vmgroup_groups) > 0", "", 1)},
			"the fleet's pending groups":      {"a template is deleted", strings.Replace(rules, "max by (namespace, group) (vmgroup_group_phase{phase=\"PENDING\"", "max(vmgroup_group_phase{phase=\"PENDING\"", 1)},
			"every update":                    {"members are not ready", strings.Replace(rules, "unless on (namespace, group) changes(vmgroup_group_replicas_updated[10m]) > 0", "", 1)},
			"another runbook":                 {"groups wait for slots", strings.Replace(rules, "#vmgroupsqueue", "#queue", 1)},
			"an old replica's groups":         {"calls another replica", strings.Replace(rules, "[7d])) - 120", "[7d])) - 120000", 1)},
			"a restarted server":              {"the server is restarted", strings.Replace(rules, "vmgroup_groups(_in_vcenter)?", "vmgroup_groups", 1)},
			"an outage that comes and goes":   {"eight of every ten", strings.Replace(rules, "avg_over_time(vmgroup_vcenter_up[10m])) < 0.5", "max_over_time(vmgroup_vcenter_up[1m])) < 0.5", 1)},
			"an outage for each group":        {"the password is changed", strings.Replace(rules, `phase="PENDING", scope="group", reason!="Paused"`, `phase="PENDING", reason!="Paused"`, 1)},
			"a host for each group":           {"a host with members", strings.Replace(rules, `vmgroup_group_members_unready{scope="group", `, `vmgroup_group_members_unready{`, 1)},
			"a full datastore for each group": {"a datastore is full", strings.Replace(rules, `phase="ERROR", scope="group"} unless on (instance) vmgroup:replica`, `phase="ERROR"} unless on (instance) vmgroup:replica`, 1)},
			"a long outage of a group ends":   {"loses all of its members", strings.Replace(rules, `or on (namespace, group) ALERTS{alertname="VmGroupDown", alertstate="firing"}`, "", 1)},
			"a new group is down":             {"a new group is cloned", strings.Replace(rules, "max_over_time(vmgroup_group_replicas_available[1h])) > 0", "max_over_time(vmgroup_group_replicas_available[1h])) >= 0", 1)},
			"a group that waits for 0":        {"a new group is cloned", strings.Replace(rules, "min_over_time(vmgroup_group_replicas_desired[1h])", "max_over_time(vmgroup_group_replicas_desired[1h])", 1)},
			"an ended certificate, twice":     {"certificate ends", strings.Replace(rules, " unless on (namespace) min by (namespace) (vmgroup_certificate_expiry_timestamp_seconds) < time()", "", 1)},
		} {
			if said := d.promtool(t, c.bent, only(t, tests, c.seenBy)); c.bent == rules || said == "" {
				t.Errorf("planted: %s: Debian %s finds nothing", what, d.release)
			}
		}
	}
}
