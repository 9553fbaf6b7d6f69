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
		for what, bent := range map[string]string{
			"no expression":              strings.Replace(rules, "== 0", "==", 1),
			"another phase":              strings.Replace(rules, `phase="ERROR"`, `phase="Error"`, 1),
			"a longer wait":              strings.Replace(rules, "for: 10m", "for: 20m", 1),
			"no certificate":             strings.Replace(rules, "7 * 86400", "6 * 86400", 1),
			"any replica knows vCenter":  strings.Replace(rules, "and on (instance) sum by (instance) (vmgroup_groups) > 0", "", 1),
			"the fleet's pending groups": strings.Replace(rules, "max by (namespace, group) (vmgroup_group_phase{phase=\"PENDING\"}", "max(vmgroup_group_phase{phase=\"PENDING\"}", 1),
			"an outage for each group":   strings.Replace(rules, "unless on (instance) vmgroup_vcenter_up == 0", "", 1),
			"every update":               strings.Replace(rules, "unless on (namespace, group) changes(vmgroup_group_replicas_updated[10m]) > 0", "", 1),
			"another runbook":            strings.Replace(rules, "#vmgroupsqueue", "#queue", 1),
		} {
			if said := d.promtool(t, bent, tests); bent == rules || said == "" {
				t.Errorf("planted: %s: Debian %s finds nothing", what, d.release)
			}
		}
	}
}
