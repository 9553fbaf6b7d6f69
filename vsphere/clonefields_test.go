package vsphere

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"

	vim "github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/test/must"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// cloneField has two values of a field of the spec that make different clones.
type cloneField struct {
	values [2]any
	// with sets the other fields that the field needs.
	with v1alpha1.VmGroupSpec
	// notByCloudInit reports whether cloud-init's metadata doesn't have the field of a network.
	notByCloudInit bool
}

// network is a network with which the clone shows a field of a network: with a customization specification, the clone itself has the addresses.
func network(n v1alpha1.Network) v1alpha1.VmGroupSpec {
	n.Network = "VM Network"
	n.IPv4 = &v1alpha1.Addresses{Ranges: []string{"10.0.0.10-10.0.0.19"}, PrefixLength: 24, Gateway: "10.0.0.1"}
	n.IPv6 = &v1alpha1.Addresses{Ranges: []string{"fd00::10-fd00::19"}, PrefixLength: 64, Gateway: "fe80::1"}
	return v1alpha1.VmGroupSpec{CustomizationSpec: "linux", Networks: []v1alpha1.Network{n}}
}

// cloneFields are the fields that only a new clone can change, by their paths.
var cloneFields = map[string]cloneField{
	"clone.mode":                   {values: [2]any{v1alpha1.CloneFull, v1alpha1.CloneLinked}},
	"clone.snapshot":               {values: [2]any{"base", "base/patched"}},
	"hardware.version":             {values: [2]any{int32(15), int32(17)}},
	"hardware.coresPerSocket":      {values: [2]any{int32(1), int32(2)}},
	"hardware.cpuHotAdd":           {values: [2]any{false, true}},
	"hardware.memoryHotAdd":        {values: [2]any{false, true}},
	"hardware.secureBoot":          {values: [2]any{false, true}},
	"hardware.vtpm":                {values: [2]any{false, true}, with: v1alpha1.VmGroupSpec{Hardware: v1alpha1.Hardware{Version: 14}}},
	"hardware.bootDelaySeconds":    {values: [2]any{int32(1), int32(2)}},
	"hardware.bootFirst":           {values: [2]any{v1alpha1.BootDisk, v1alpha1.BootNetwork}},
	"hardware.pciDevices[]":        {values: [2]any{"10de:1eb8", "grid_t4-8c"}, with: v1alpha1.VmGroupSpec{Hardware: v1alpha1.Hardware{Version: 17}}},
	"placement.pool":               {values: [2]any{"DC0_C0", "DC0_C1"}},
	"placement.zones[]":            {values: [2]any{"DC0_C0", "DC0_C1"}},
	"placement.datastore":          {values: [2]any{"LocalDS_0", "LocalDS_1"}},
	"placement.storagePolicy":      {values: [2]any{"gold", "silver"}},
	"customizationSpec":            {values: [2]any{"linux", "windows"}},
	"networks[].network":           {values: [2]any{"VM Network", "DC0_DVPG0"}, with: network(v1alpha1.Network{}), notByCloudInit: true},
	"networks[].dhcp":              {values: [2]any{true, false}, with: v1alpha1.VmGroupSpec{Networks: []v1alpha1.Network{{Network: "VM Network"}}}},
	"networks[].nameservers[]":     {values: [2]any{"10.0.0.53", "10.0.1.53"}, with: network(v1alpha1.Network{})},
	"networks[].searchDomains[]":   {values: [2]any{"a.example.com", "b.example.com"}, with: network(v1alpha1.Network{})},
	"networks[].ipv4.prefixLength": {values: [2]any{int32(23), int32(24)}, with: network(v1alpha1.Network{})},
	"networks[].ipv4.gateway":      {values: [2]any{"10.0.0.1", "10.0.0.2"}, with: network(v1alpha1.Network{})},
	"networks[].ipv6.prefixLength": {values: [2]any{int32(64), int32(72)}, with: network(v1alpha1.Network{})},
	"networks[].ipv6.gateway":      {values: [2]any{"fe80::1", "fe80::2"}, with: network(v1alpha1.Network{})},
}

// A change of a field of the revision replaces members. If a clone didn't use the field, the server would replace members with equal ones.
func TestACloneUsesEveryFieldThatOnlyANewCloneCanChange(t *testing.T) {
	t.Parallel()
	paths := map[string]bool{}
	fieldPaths("", reflect.TypeFor[v1alpha1.VmGroupSpec](), paths)
	for path := range paths {
		if _, listed := cloneFields[path]; !listed && path != "template" && entersRevision(path) { // the template is the source of the clone
			t.Errorf("spec.%s enters the revision: use it in a step of the clone (cloneSteps in vsphere/clone.go), and list two of its values in cloneFields here", path)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		w, p := placed(t, vcsim.Config{Clusters: 2, Datastores: 2, Portgroups: 1}, func(c *Config) { c.Pool, c.Datastore = "DC0_C0", "LocalDS_0" })
		for _, name := range []string{"base", "patched"} {
			_, err := w.AddSnapshot("ubuntu", name)
			w.must(err)
		}
		for name, datastore := range map[string]string{"gold": "LocalDS_0", "silver": "LocalDS_1"} {
			_, err := w.AddStoragePolicy(name, "/DC0/datastore/"+datastore)
			w.must(err)
		}
		w.must(w.BootWithEFI("ubuntu"))
		w.must(w.AddCustomizationSpec("linux", false))
		w.must(w.AddCustomizationSpec("windows", true))
		for path, field := range cloneFields {
			if !entersRevision(path) {
				t.Errorf("spec.%s does not enter the revision", path)
			}
			var clones, configurations [2]string
			for i, value := range field.values {
				clones[i], configurations[i] = p.cloneOf(specWith(field.with, path, value))
			}
			if clones[0] == clones[1] && path != "networks[].dhcp" { // a specification without addresses uses DHCP either way
				t.Errorf("a change of spec.%s makes an equal clone: use it in a step of the clone (cloneSteps in vsphere/clone.go)", path)
			}
			if strings.HasPrefix(path, "networks[].") && !field.notByCloudInit && configurations[0] == configurations[1] {
				t.Errorf("a change of spec.%s changes no network configuration: use it in networkOf (vsphere/guest/metadata.go)", path)
			}
		}
	})
}

// cloneOf returns the clone spec for a member of that spec with what prepares it before its first power-on, and cloud-init's network
// configuration.
func (p *process) cloneOf(spec v1alpha1.VmGroupSpec) (clone, configuration string) {
	p.t.Helper()
	a := p.shaped(0, spec)
	b, err := p.newCloneBuilder(web, a, a.Folder())
	p.world.must(err)
	b.id = "id"
	for _, step := range b.cloneSteps() {
		p.world.must(step.fill(p.t.Context()))
	}
	var nics []vim.BaseVirtualDevice
	for range spec.Networks {
		nics = append(nics, &vim.VirtualVmxnet3{VirtualVmxnet: vim.VirtualVmxnet{VirtualEthernetCard: vim.VirtualEthernetCard{MacAddress: "00:50:56:00:00:01"}}})
	}
	byCloudInit := *a.Details()
	byCloudInit.Spec = a.Details().Spec.DeepCopy()
	byCloudInit.Spec.CustomizationSpec = ""
	a.Args = &byCloudInit
	options, err := guestOptions(web, a, "id", nics, nil)
	p.world.must(err)
	return asJSON(p.t, b.spec) + plan.PreparationOf(&spec), asJSON(p.t, options)
}

func asJSON(t testing.TB, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	must.Succeed(t, err)
	return string(text)
}

// fieldPaths collects the paths of a type's values: "networks[].ipv4.gateway".
func fieldPaths(path string, of reflect.Type, into map[string]bool) {
	switch {
	case of.Kind() == reflect.Pointer:
		fieldPaths(path, of.Elem(), into)
	case of.Kind() == reflect.Slice:
		fieldPaths(path+"[]", of.Elem(), into)
	case of.Kind() == reflect.Struct && of.PkgPath() == reflect.TypeFor[v1alpha1.VmGroupSpec]().PkgPath():
		for i := range of.NumField() {
			fieldPaths(strings.TrimPrefix(path+"."+jsonName(of.Field(i)), "."), of.Field(i).Type, into)
		}
	case of.Kind() == reflect.String || of.Kind() == reflect.Bool || of.Kind() == reflect.Int32:
		into[path] = true
	}
}

func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

// entersRevision reports whether a field is part of the revision.
func entersRevision(path string) bool {
	revisions := map[string]bool{}
	for _, value := range []any{"10.0.0.7", string(v1alpha1.CloneLinked), int32(7), int32(8), true, false} {
		spec := specWith(v1alpha1.VmGroupSpec{}, path, value)
		revisions[plan.Revision(&spec)] = true
	}
	return len(revisions) > 1
}

// specWith returns a copy of a spec with a value at a path; unchanged if the field is of another type.
func specWith(spec v1alpha1.VmGroupSpec, path string, value any) v1alpha1.VmGroupSpec {
	spec = *spec.DeepCopy()
	at := reflect.ValueOf(&spec).Elem()
	for name := range strings.SplitSeq(path, ".") {
		name, list := strings.CutSuffix(name, "[]")
		for i := range at.NumField() {
			if jsonName(at.Type().Field(i)) == name {
				at = at.Field(i)
				break
			}
		}
		if list {
			if at.Len() == 0 {
				at.Set(reflect.MakeSlice(at.Type(), 1, 1))
			}
			at = at.Index(0)
		}
		if at.Kind() == reflect.Pointer {
			if at.IsNil() {
				at.Set(reflect.New(at.Type().Elem()))
			}
			at = at.Elem()
		}
	}
	if v := reflect.ValueOf(value); v.Kind() == at.Kind() {
		at.Set(v.Convert(at.Type()))
	}
	return spec
}
