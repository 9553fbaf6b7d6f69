package v1alpha1

import (
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"
)

// plain is a valid spec of a group named web.
func plain() map[string]any { return map[string]any{"cpu": 2, "memory": 4, "template": "t"} }

// web is the group web of that spec.
func web(t *testing.T, spec map[string]any) *VmGroup {
	t.Helper()
	raw, err := yaml.Marshal(map[string]any{"metadata": map[string]any{"name": "web"}, "spec": spec})
	if err != nil {
		t.Fatal(err)
	}
	g := &VmGroup{}
	if err := yaml.UnmarshalStrict(raw, g); err != nil {
		t.Fatal(err)
	}
	return g
}

func TestWhatIsRefusedIsNamedByFieldAndBound(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("testdata/refused.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Why, Field, Says, Schema string
		Spec                     map[string]any
	}
	if err := yaml.UnmarshalStrict(raw, &cases); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		t.Run(c.Why, func(t *testing.T) {
			t.Parallel()
			spec := plain()
			maps.Copy(spec, c.Spec)
			errs := web(t, spec).Validate()
			if len(errs) != 1 {
				t.Fatalf("not one error: %v", errs)
			}
			if text := errs[0].Error(); !strings.HasPrefix(errs[0].Field, c.Field) || !strings.Contains(text, c.Says) {
				t.Errorf("it says: %s", text)
			}
		})
	}
}

func TestTheEdgesOfTheBoundsAreTaken(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`{}`,
		`{cpu: 768, memory: 24576, replicas: 1000, inventory: None, paused: true}`,
		`{replicas: 0, template: "` + strings.Repeat("ü", MaxTemplateLength) + `"}`,
		`{readiness: {check: GuestIP, initialDelaySeconds: 2592000, timeoutSeconds: 2592000}}`,
		`{update: {maxSurge: 0}}`,
		`{update: {maxUnavailable: 0%}}`,
		`{update: {maxSurge: 100%, maxUnavailable: 1000, canary: 0}}`,
		`{update: {maxSurge: 1%, maxUnavailable: 0, canary: 0%}}`,
		`{update: {minReadySeconds: 1799}}`,
		`{update: {minReadySeconds: 2591999, progressDeadlineSeconds: 2592000}}`,
		`{healing: {action: None, maxUnhealthy: 0, maxConcurrent: 1%}}`,
		`{scaleIn: {order: Newest, protected: [web-0, web-99999], remove: [web-10]}}`,
		`{replace: [{name: web-1, moRef: vm-42}, {name: web-1, moRef: vm-43}, {name: web-2, moRef: "17"}]}`,
		`{deletion: {policy: Retain, shutdownTimeoutSeconds: 0, quarantineSeconds: 2592000}}`,
		`{adopt: [vm-42, /DC0/vm/legacy/web-a, legacy/web-a, "/DC0/vm/100%25 ours/a b"]}`,
		`{adopt: ["/` + strings.Repeat("é", MaxAdoptLength-1) + `"]}`,
	} {
		t.Run(text[:min(len(text), 60)], func(t *testing.T) {
			t.Parallel()
			more, spec := map[string]any{}, plain()
			if err := yaml.UnmarshalStrict([]byte(text), &more); err != nil {
				t.Fatal(err)
			}
			maps.Copy(spec, more)
			if errs := web(t, spec).Validate(); len(errs) > 0 {
				t.Error(errs.ToAggregate())
			}
		})
	}
}

// The lengths are in characters, as the schema counts them, and a list that is too long is told of once.
func TestWhatIsTooLongIsRefused(t *testing.T) {
	t.Parallel()
	many := func(format string) (list []string) {
		for i := range MaxListed + 1 {
			list = append(list, fmt.Sprintf(format, i))
		}
		return list
	}
	for says, change := range map[string]func(*VmGroup){
		"metadata.name: Invalid value":                                  func(g *VmGroup) { g.Name = strings.Repeat("a", MaxNameLength+1) },
		"metadata.name: Invalid value: \"a.b\"":                         func(g *VmGroup) { g.Name = "a.b" },
		"spec.template: Too long: may not be more than 512 characters":  func(g *VmGroup) { g.Spec.Template = strings.Repeat("t", MaxTemplateLength+1) },
		"spec.adopt[0]: Too long: may not be more than 1024 characters": func(g *VmGroup) { g.Spec.Adopt = []string{"/" + strings.Repeat("a", MaxAdoptLength)} },
		"spec.replace[0].moRef: Too long: may not be more than 63": func(g *VmGroup) {
			g.Spec.Replace = []Replacement{{Name: "web-0", MoRef: strings.Repeat("1", MaxMoRefLength+1)}}
		},
		"spec.scaleIn.protected[0]: Too long: may not be more than 63": func(g *VmGroup) {
			g.Spec.ScaleIn.Protected = []string{"web-" + strings.Repeat("0", MaxMemberName)}
		},
		"spec.adopt: Too many: 1001":             func(g *VmGroup) { g.Spec.Adopt = many("vm-%d") },
		"spec.scaleIn.protected: Too many: 1001": func(g *VmGroup) { g.Spec.ScaleIn.Protected = many("web-%d") },
		"spec.scaleIn.remove: Too many: 1001":    func(g *VmGroup) { g.Spec.ScaleIn.Remove = many("web-%d") },
		"spec.replace: Too many: 1001":           func(g *VmGroup) { g.Spec.Replace = make([]Replacement, MaxListed+1) },
	} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			g := web(t, plain())
			change(g)
			if errs := g.Validate(); len(errs) != 1 || !strings.Contains(errs[0].Error(), says) {
				t.Errorf("it says: %v", errs)
			}
		})
	}
}

// The faults end up in a condition, of which an API server takes 32,768 characters.
func TestAFewFaultsOfALongListAreTold(t *testing.T) {
	t.Parallel()
	g := web(t, plain())
	for i := range MaxListed {
		name := fmt.Sprintf("%s-%d", strings.Repeat("db", 28), i)
		g.Spec.ScaleIn.Protected = append(g.Spec.ScaleIn.Protected, name)
		g.Spec.ScaleIn.Remove = append(g.Spec.ScaleIn.Remove, name)
		g.Spec.Replace = append(g.Spec.Replace, Replacement{Name: name, MoRef: strings.Repeat("/", MaxMoRefLength)})
		g.Spec.Adopt = append(g.Spec.Adopt, strings.Repeat("a", MaxAdoptLength-4)+fmt.Sprintf("%04d", i))
	}
	errs := g.Validate()
	if text := errs.ToAggregate().Error(); len(errs) != 50 || len(text) > 24<<10 {
		t.Errorf("%d faults in %d characters", len(errs), len(text))
	}
}

// A settled group is checked at each hook call.
func TestAPlainGroupIsCheckedWithFewAllocations(t *testing.T) {
	g := web(t, plain())
	if n := testing.AllocsPerRun(100, func() { g.Validate() }); n > 20 {
		t.Errorf("%v allocations", n)
	}
}

func TestTheDefaultsAreValid(t *testing.T) {
	t.Parallel()
	g := web(t, plain())
	for limit, value := range map[**intstr.IntOrString]string{
		&g.Spec.Update.MaxSurge: DefaultMaxSurge, &g.Spec.Update.MaxUnavailable: DefaultMaxUnavailable,
		&g.Spec.Healing.MaxUnhealthy: DefaultMaxUnhealthy, &g.Spec.Healing.MaxConcurrent: DefaultMaxConcurrent,
	} {
		v := intstr.FromString(value)
		*limit = &v
	}
	if errs := g.Validate(); len(errs) > 0 {
		t.Error(errs.ToAggregate())
	}
}
