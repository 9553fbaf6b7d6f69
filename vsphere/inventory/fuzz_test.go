package inventory

import (
	"bytes"
	"errors"
	"testing"

	vim "github.com/vmware/govmomi/vim25/types"
	"github.com/vmware/govmomi/vim25/xml"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/stamp"
)

// good is the stamp of a member of web.
const good = `{"v":1,"cluster":"prod","namespace":"shop","name":"web","uid":"uid-web","generation":3,"ordinal":2,"revision":"5f3c","revisionAlgorithm":1,"instanceUuid":"id","vcenter":"dbed"}`

// A VM is a group's member if and only if the text at the stamp's key is a stamp of that group, of this server's version, and of this VM. With
// any other text, the VM is unmanaged.
func FuzzOnlyAStampMakesAMember(f *testing.F) {
	for _, text := range []string{good, `{"v":2}`, `{"v":1,"uid":"uid-web","instanceUuid":"b","ordinal":7}`,
		`{"v":2,"uid":"uid-web","instanceUuid":"id","ordinal":0}`, `{"v":1,"uid":"uid-web","instanceUuid":"id","ordinal":-1}`,
		`{"v":1,"uid":"uid-web","instanceUuid":"id","shutdown":{"at":"x"}}`, "", "null", "\x00"} {
		f.Add(text, "id")
	}
	f.Fuzz(func(t *testing.T, text, instanceUUID string) {
		s := newFilled()
		s.publish(Machine{VM: plan.VM{MoRef: "vm-7", Name: "web-0", Power: plan.PoweredOn, Reachable: true}, Parent: "web", Readable: true, Whole: true,
			InstanceUUID: instanceUUID, StampText: text})
		found, err := stamp.Decode(text)
		owned := err == nil && found.Owned(web.UID, instanceUUID)
		state := s.look()
		if is := len(state.VMs) > 0; is != owned {
			t.Fatalf("a member: %v; the stamp: %v, %v (%+v)", is, owned, err, found)
		}
		if owned && (state.VMs[0].MoRef != "vm-7" || state.VMs[0].Ordinal < 0 || state.VMs[0].Ordinal != found.Ordinal) {
			t.Fatalf("the member is %+v, want vm-7 with the ordinal %d", state.VMs[0], found.Ordinal)
		}
		if err != nil && !errors.Is(err, stamp.ErrInvalid) && !errors.Is(err, stamp.ErrVersion) {
			t.Fatal(err)
		}
	})
}

// Any answer of vCenter must be decoded and published without a panic, and no VM without a stamp of the group may become a member.
func FuzzInventoryAnswer(f *testing.F) {
	const head = `<RetrieveResult xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xmlns:xsd="http://www.w3.org/2001/XMLSchema">`
	for _, objects := range []string{
		`<objects><obj type="VirtualMachine">vm-7</obj><propSet><name>name</name><val xsi:type="xsd:string">web-0</val></propSet>` +
			`<propSet><name>config.instanceUuid</name><val xsi:type="xsd:string">id</val></propSet>` +
			`<propSet><name>parent</name><val xsi:type="ManagedObjectReference" type="Folder">web</val></propSet>` +
			`<propSet><name>runtime.powerState</name><val xsi:type="VirtualMachinePowerState">poweredOn</val></propSet>` +
			`<propSet><name>runtime.bootTime</name><val xsi:type="xsd:dateTime">2026-11-21T03:00:00Z</val></propSet>` +
			`<propSet><name>config.hardware.numCPU</name><val xsi:type="xsd:int">2</val></propSet>` +
			`<propSet><name>config.cpuHotAddEnabled</name><val xsi:type="xsd:boolean">true</val></propSet>` +
			`<propSet><name>` + session.OptionPath(stamp.Key) + `</name><val xsi:type="OptionValue"><key>` + stamp.Key + `</key><value xsi:type="xsd:string">` + good + `</value></val></propSet></objects>`,
		`<objects><obj type="VirtualMachine">vm-8</obj><propSet><name>guest.ipAddress</name><val xsi:type="xsd:string">fe80::1%eth0</val></propSet>` +
			`<propSet><name>guest.net</name><val xsi:type="ArrayOfGuestNicInfo"><GuestNicInfo><ipAddress>10.0.0.7</ipAddress><deviceConfigId>4000</deviceConfigId></GuestNicInfo></val></propSet>` +
			`<missingSet><path>config</path><fault><fault xsi:type="NoPermission"/><localizedMessage/></fault></missingSet></objects>`,
		`<objects><obj type="Folder">web</obj><propSet><name>name</name><val xsi:type="xsd:string">a%2fb</val></propSet>` +
			`<propSet><name>parent</name><val xsi:type="ManagedObjectReference" type="Folder">web</val></propSet></objects>`,
		`<objects><obj type="HostSystem">host-1</obj><propSet><name>name</name><val xsi:type="xsd:string">esx-1</val></propSet></objects>`,
		`<objects><obj type="ClusterComputeResource">domain-c1</obj><propSet><name>configurationEx</name><val xsi:type="ClusterConfigInfoEx"><dasConfig/><drsConfig><enabled>true</enabled></drsConfig>` +
			`<rule xsi:type="ClusterAntiAffinityRuleSpec"><key>1</key><enabled>true</enabled><name>vmgroup default/web uid-web</name><vm type="VirtualMachine">vm-7</vm></rule></val></propSet></objects>`,
		`<objects><obj type="ClusterComputeResource">domain-c1</obj><propSet><name>configurationEx</name><val xsi:type="ClusterConfigInfoEx"><dasConfig/><drsConfig/>` +
			`<group xsi:type="ClusterFutureGroup"/><rule xsi:type="ClusterFutureRule"><name>vmgroup default/web uid-web</name></rule></val></propSet></objects>`,
		`<objects><obj type="VirtualMachine">vm-7</obj><propSet><name>runtime.question</name><val xsi:type="VirtualMachineQuestionInfo"><id>1</id><text>q</text>` +
			`<choice><choiceInfo xsi:type="FutureChoice"/></choice></val></propSet></objects>`,
	} {
		f.Add([]byte(head + objects + `</RetrieveResult>`))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		d := xml.NewDecoder(bytes.NewReader(text))
		d.TypeFunc = vim.TypeFunc()
		var result vim.RetrieveResult
		if d.Decode(&result) != nil {
			return
		}
		r := Reading{VCenter: "vc", Clusters: decodeClusters(result.Objects)}
		r.decode(result.Objects, map[string]string{})
		s := newFilled()
		s.Publish(r)
		s.Publish(r) // published twice
		members := map[string]bool{}
		for i := range r.Machines {
			m := &r.Machines[i]
			if found, err := stamp.Decode(m.StampText); err == nil && found.Owned(web.UID, m.InstanceUUID) {
				members[m.MoRef] = true
			}
		}
		for _, vm := range s.look("vm-7").VMs {
			if !members[vm.MoRef] {
				t.Fatalf("%+v counts as a member", vm)
			}
		}
		_, _ = s.ListGroups("")
	})
}
