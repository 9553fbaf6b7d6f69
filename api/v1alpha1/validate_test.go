package v1alpha1

import (
	"fmt"
	"maps"
	"math"
	"os"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	"codeconnect.vmworld.com/vmgroup/test/must"
)

// plain is a valid spec of a group named web.
func plain() map[string]any { return map[string]any{"cpu": 2, "memory": 4, "template": "t"} }

// web is the group web of that spec.
func web(t *testing.T, spec map[string]any) *VmGroup {
	t.Helper()
	raw, err := yaml.Marshal(map[string]any{"metadata": map[string]any{"name": "web"}, "spec": spec})
	must.Succeed(t, err)
	g := &VmGroup{}
	must.Succeed(t, yaml.UnmarshalStrict(raw, g))
	return g
}

func TestEveryErrorNamesItsFieldAndBound(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("testdata/refused.yaml")
	must.Succeed(t, err)
	var cases []struct {
		Why, Name, Field, Says, Schema string
		Spec                           map[string]any
	}
	must.Succeed(t, yaml.UnmarshalStrict(raw, &cases))
	for _, c := range cases {
		t.Run(c.Why, func(t *testing.T) {
			t.Parallel()
			spec := plain()
			maps.Copy(spec, c.Spec)
			g := web(t, spec)
			if c.Name != "" {
				g.Name = c.Name
			}
			errs := g.Validate()
			if len(errs) != 1 {
				t.Fatalf("want one error: %v", errs)
			}
			if text := errs[0].Error(); !strings.HasPrefix(errs[0].Field, c.Field) || !strings.Contains(text, c.Says) {
				t.Errorf("message: %s", text)
			}
		})
	}
}

func TestValuesAtTheBoundsAreAccepted(t *testing.T) {
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
		`{update: {maxAgeSeconds: 3600}}`,
		`{update: {maxAgeSeconds: 31536000, windows: [{start: "00:00", durationSeconds: 60}, {days: [Sunday, Saturday], start: "23:59", durationSeconds: 86400, timeZone: America/Argentina/ComodRivadavia}]}}`,
		`{healing: {action: None, maxUnhealthy: 0, maxConcurrent: 1%}}`,
		`{scaleIn: {order: Newest, protected: [web-0, web-99999], remove: [web-10]}}`,
		`{replace: [{name: web-1, moRef: vm-42}, {name: web-1, moRef: vm-43}, {name: web-2, moRef: "17"}]}`,
		`{deletion: {policy: Retain, shutdownTimeoutSeconds: 0, quarantineSeconds: 2592000, holdTimeoutSeconds: 2592000}}`,
		`{adopt: [vm-42, /DC0/vm/legacy/web-a, legacy/web-a, "/DC0/vm/100%25 ours/a b"]}`,
		`{adopt: ["/` + strings.Repeat("é", MaxAdoptLength-1) + `"]}`,
		`{clone: {mode: Linked, snapshot: "` + strings.Repeat("é", MaxInventoryPath) + `"}}`,
		`{placement: {datacenter: /eu/DC0, pool: /DC0/host/C0/Resources/a b, datastore: pod-1, storagePolicy: Gold (mirrored), antiAffinity: Required}}`,
		`{placement: {zones: [C0, /DC0/host/C0], folder: teams}}`,
		`{placement: {pool: C0, zones: []}}`,
		`{hardware: {version: 99, coresPerSocket: 1, cpuHotAdd: false, memoryHotAdd: true, cpuReservationMHz: 10000000, cpuLimitMHz: 10000000, cpuShares: Low, reserveAllMemory: true, memoryShares: High, secureBoot: true, vtpm: true, bootDelaySeconds: 10, bootFirst: Network, pciDevices: ["10de:1eb8", grid_t4-4c]}}`,
		`{hardware: {cpuShares: 1, memoryShares: 503316480}}`,
		`{cpu: 768, memory: 24576, hardware: {coresPerSocket: 768, memoryReservationMiB: 25165824, memoryLimitMiB: 25165824, reserveAllMemory: false}}`,
		`{placement: {zones: [C0, C1], hostGroup: {names: [licensed]}}}`,
		`{placement: {zones: [C0, C1], hostGroup: {names: [site-a, site-b], rule: Required}}}`,
		`{placement: {pool: C0, hostGroup: {names: [site-a, site-b, site-c], rule: Preferred}}}`,
		`{placement: {folder: "` + strings.Repeat(strings.Repeat("é", MaxVimName)+"/", 3) + `.../a b/100%25"}}`,
		`{networks: [{network: a}, {network: b, dhcp: true}, {network: /DC0/network/c, dhcp: true, ipv6: {ranges: ["2001:db8::7"], prefixLength: 128}}]}`,
		`{networks: [{network: a, ipv4: {ranges: [10.0.0.7], additionalRanges: [10.0.0.107, 10.0.0.207-10.0.0.209], prefixLength: 24}}]}`,
		`{networks: [{network: a, ipv6: {ranges: ["2001:db8::7"], additionalRanges: ["2001:db8::8"], prefixLength: 64}}], customizationSpec: linux}`,
		`{networks: [{network: a, dhcp: false}], userData: {secretKeyRef: {name: boot}}}`,
		`{networks: [{network: a, dhcp: false, ipv6: {ranges: ["2001:db8::7"], prefixLength: 64}}], customizationSpec: linux}`,
		`{networks: [{network: a, dhcp: false, ipv4: {ranges: [10.0.0.1 - 10.0.0.9, 10.0.0.254], prefixLength: 24, gateway: 10.0.0.10}}]}`,
		`{networks: [{network: a, ipv4: {ranges: [10.0.0.0-10.0.0.1], prefixLength: 31}}], replicas: 2}`,
		`{networks: [{network: a, ipv4: {ranges: [10.0.0.7], prefixLength: 32}, nameservers: [10.0.0.53, "2001:db8::53", "fe80::1"], searchDomains: [a, 1.example.com]}]}`,
		`{networks: [{network: a, ipv6: {ranges: ["2001:DB8::1-2001:db8:0:0:ffff:ffff:ffff:ffff"], prefixLength: 64, gateway: "fe80::1"}}], replicas: 1000}`,
		`{networks: [{network: a, ipv4: {ranges: [10.0.0.30-10.0.0.39, 10.0.0.10-10.0.0.19, 10.0.0.20-10.0.0.29], prefixLength: 24}}], replicas: 30}`,
		`{userData: {secretKeyRef: {name: web.user-data, key: .cloud_Config-1}}}`,
		`{userData: {configMapKeyRef: {name: "9", key: ""}}}`,
		`{customizationSpec: Windows 2022 (en)}`,
		`{tags: [{category: team, name: shop}, {category: team, name: ledger}, {category: a/b, name: "50%", create: true}]}`,
		`{extraConfig: {"` + strings.Repeat("é", MaxExtraKey) + `": "` + strings.Repeat("é", MaxExtraValue) + `", disk.EnableUUID: ""}}`,
		`{customAttributes: {"` + strings.Repeat("é", MaxVimName) + `": "` + strings.Repeat("é", MaxAttributeValue) + `", b: ""}}`,
		`{service: {}}`,
		`{service: {type: LoadBalancer, ports: [{port: 5432}]}}`,
		`{service: {type: ClusterIP, drainSeconds: 2592000, ports: [{port: 65535}]}}`,
		`{service: {ports: [{name: http, port: 80, targetPort: 8080, appProtocol: kubernetes.io/h2c}, {name: 0123456789abcde, port: 53, protocol: UDP}]}}`,
		`{service: {annotations: {Example.com/Owner: shop, plain: ""}}}`,
		`{service: {annotations: {a: "` + strings.Repeat("é", MaxAnnotationsSize-1) + `"}}}`,
	} {
		t.Run(text[:min(len(text), 60)], func(t *testing.T) {
			t.Parallel()
			more, spec := map[string]any{}, plain()
			must.Succeed(t, yaml.UnmarshalStrict([]byte(text), &more))
			maps.Copy(spec, more)
			if errs := web(t, spec).Validate(); len(errs) > 0 {
				t.Errorf("a valid group was refused: %v", errs.ToAggregate())
			}
		})
	}
}

// Lengths are in characters, as the schema counts them; a list that is too long is one error.
func TestTooLongValuesAreRefused(t *testing.T) {
	t.Parallel()
	many := func(format string) (list []string) {
		for i := range MaxListed + 1 {
			list = append(list, fmt.Sprintf(format, i))
		}
		return list
	}
	long := func(most int) string { return strings.Repeat("a", most+1) }
	pairs := func(names []string) map[string]string {
		all := map[string]string{}
		for _, name := range names {
			all[name] = ""
		}
		return all
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
		"spec.clone.snapshot: Too long: may not be more than 1024":        func(g *VmGroup) { g.Spec.Clone.Snapshot = long(MaxInventoryPath) },
		"spec.placement.datacenter: Too long: may not be more than 1024":  func(g *VmGroup) { g.Spec.Placement.Datacenter = long(MaxInventoryPath) },
		"spec.placement.pool: Too long: may not be more than 1024":        func(g *VmGroup) { g.Spec.Placement.Pool = long(MaxInventoryPath) },
		"spec.placement.datastore: Too long: may not be more than 1024":   func(g *VmGroup) { g.Spec.Placement.Datastore = long(MaxInventoryPath) },
		"spec.placement.storagePolicy: Too long: may not be more than 80": func(g *VmGroup) { g.Spec.Placement.StoragePolicy = long(MaxVimName) },
		"spec.placement.folder: Too long: may not be more than 1024":      func(g *VmGroup) { g.Spec.Placement.Folder = long(MaxInventoryPath) },
		"spec.placement.zones[0]: Too long: may not be more than 1024":    func(g *VmGroup) { g.Spec.Placement.Zones = []string{long(MaxInventoryPath)} },
		"spec.placement.zones: Too many: 33":                              func(g *VmGroup) { g.Spec.Placement.Zones = many("C%d")[:MaxZones+1] },
		"spec.networks[0].network: Too long: may not be more than 1024":   func(g *VmGroup) { g.Spec.Networks = []Network{{Network: long(MaxInventoryPath)}} },
		"spec.networks: Too many: 11":                                     func(g *VmGroup) { g.Spec.Networks = make([]Network, MaxNetworks+1) },
		"spec.networks[0].ipv4.ranges: Too many: 65": func(g *VmGroup) {
			g.Spec.Networks = []Network{{Network: "a", IPv4: &Addresses{Ranges: many("10.0.0.%d")[:MaxRanges+1], PrefixLength: 24}}}
		},
		"spec.networks[0].ipv4.ranges[0]: Too long: may not be more than 93": func(g *VmGroup) {
			g.Spec.Networks = []Network{{Network: "a", IPv4: &Addresses{Ranges: []string{long(MaxRange)}, PrefixLength: 24}}}
		},
		"spec.networks[0].nameservers: Too many: 9": func(g *VmGroup) {
			g.Spec.Networks = []Network{{Network: "a", Nameservers: many("10.0.0.%d")[:MaxNameservers+1]}}
		},
		"spec.networks[0].searchDomains: Too many: 9": func(g *VmGroup) {
			g.Spec.Networks = []Network{{Network: "a", SearchDomains: many("d%d")[:MaxNameservers+1]}}
		},
		"must be a DNS name in lower case, such as shop.example.com, of at most 253 characters": func(g *VmGroup) {
			g.Spec.Networks = []Network{{Network: "a", SearchDomains: []string{long(MaxDomain)}}}
		},
		"spec.userData.secretKeyRef.name: Too long: may not be more than 253": func(g *VmGroup) {
			g.Spec.UserData = &UserData{SecretKeyRef: &KeyRef{Name: long(MaxDomain)}}
		},
		"spec.userData.configMapKeyRef.key: Too long: may not be more than 253": func(g *VmGroup) {
			g.Spec.UserData = &UserData{ConfigMapKeyRef: &KeyRef{Name: "web", Key: long(MaxDomain)}}
		},
		"spec.customizationSpec: Too long: may not be more than 80": func(g *VmGroup) { g.Spec.CustomizationSpec = long(MaxVimName) },
		"spec.tags: Too many: 21":                                   func(g *VmGroup) { g.Spec.Tags = make([]Tag, MaxMarks+1) },
		"spec.tags[0].category: Too long: may not be more than 80":  func(g *VmGroup) { g.Spec.Tags = []Tag{{Category: long(MaxVimName), Name: "a"}} },
		"spec.tags[0].name: Too long: may not be more than 80":      func(g *VmGroup) { g.Spec.Tags = []Tag{{Category: "a", Name: long(MaxVimName)}} },
		"spec.extraConfig: Too many: 21":                            func(g *VmGroup) { g.Spec.ExtraConfig = pairs(many("a%d")[:MaxMarks+1]) },
		"spec.customAttributes: Too many: 21":                       func(g *VmGroup) { g.Spec.CustomAttributes = pairs(many("a%d")[:MaxMarks+1]) },
		"spec.customAttributes[a]: Invalid value":                   func(g *VmGroup) { g.Spec.CustomAttributes = map[string]string{"a": long(MaxAttributeValue)} },
		"spec.service.ports: Too many: 101":                         func(g *VmGroup) { g.Spec.Service = &Service{Ports: make([]ServicePort, MaxServicePorts+1)} },
		"spec.service.ports[0].name: Too long: may not be more than 15": func(g *VmGroup) {
			g.Spec.Service = &Service{Ports: []ServicePort{{Port: 1, Name: long(MaxPortName)}}}
		},
		"spec.service.ports[0].appProtocol: Too long: may not be more than 253": func(g *VmGroup) {
			g.Spec.Service = &Service{Ports: []ServicePort{{Port: 1, AppProtocol: long(MaxDomain)}}}
		},
		"spec.service.annotations: Too many: 51": func(g *VmGroup) {
			g.Spec.Service = &Service{Annotations: pairs(many("a%d")[:MaxServiceAnnotations+1])}
		},
		"can have 16384 characters together, names and values; these have 16386": func(g *VmGroup) {
			g.Spec.Service = &Service{Annotations: map[string]string{"a": long(MaxAnnotationsSize)}}
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
				t.Errorf("message: %v", errs)
			}
		})
	}
}

// The errors end up in a condition; an API server accepts 32,768 characters there.
func TestTheErrorsOfLongListsAreBounded(t *testing.T) {
	t.Parallel()
	g := web(t, plain())
	g.Spec.CustomAttributes = map[string]string{}
	g.Spec.Service = &Service{Annotations: map[string]string{}}
	for i := range MaxMarks {
		g.Spec.Placement.Zones = append(g.Spec.Placement.Zones, strings.Repeat("z", MaxInventoryPath))
		g.Spec.Tags = append(g.Spec.Tags, Tag{Category: strings.Repeat("c", MaxVimName), Name: strings.Repeat("n", MaxVimName)})
		g.Spec.CustomAttributes[fmt.Sprint(i)] = strings.Repeat("v", 1<<16)
		g.Spec.Service.Annotations[strings.Repeat("/", 1<<16+i)] = ""
	}
	for i := range MaxListed {
		name := fmt.Sprintf("%s-%d", strings.Repeat("db", 28), i)
		g.Spec.ScaleIn.Protected = append(g.Spec.ScaleIn.Protected, name)
		g.Spec.ScaleIn.Remove = append(g.Spec.ScaleIn.Remove, name)
		g.Spec.Replace = append(g.Spec.Replace, Replacement{Name: name, MoRef: strings.Repeat("/", MaxMoRefLength)})
		g.Spec.Adopt = append(g.Spec.Adopt, strings.Repeat("a", MaxAdoptLength-4)+fmt.Sprintf("%04d", i))
	}
	errs := g.Validate()
	if text := errs.ToAggregate().Error(); len(errs) != 50 || len(text) > 24<<10 {
		t.Errorf("%d errors in %d characters", len(errs), len(text))
	}
	g.Spec.ScaleIn, g.Spec.Replace, g.Spec.Adopt = ScaleIn{}, nil, nil
	errs = g.Validate()
	if text := errs.ToAggregate().Error(); len(errs) < 30 || len(text) > 24<<10 {
		t.Errorf("%d errors in %d characters", len(errs), len(text))
	}
	for range 20 {
		if again := g.Validate(); again.ToAggregate().Error() != errs.ToAggregate().Error() {
			t.Fatalf("the errors are in another order: %v", again)
		}
	}
}

// Every hook call validates its group.
func TestAPlainGroupIsCheckedWithFewAllocations(t *testing.T) {
	g := web(t, plain())
	least := math.Inf(1) // AllocsPerRun also counts what the runtime allocates
	for range 10 {
		least = min(least, testing.AllocsPerRun(100, func() { g.Validate() }))
	}
	if least > 25 {
		t.Errorf("%v allocations; want at most 25", least)
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
		t.Errorf("a group with the defaults was refused: %v", errs.ToAggregate())
	}
}
