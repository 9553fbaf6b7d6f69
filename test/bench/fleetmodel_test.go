package bench

import (
	"bytes"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"
	"github.com/vmware/govmomi/vim25/xml"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/stamp"
)

// fleet models the wire of a vCenter: it answers the SOAP calls that the server makes for a large inventory at rest, in pages of
// 100 objects as vCenter 8.0 does (https://github.com/vmware/vsphere-automation-sdk-java/issues/217), with properties of the usual
// size. The embedded vCenter compares all objects for each update, and takes minutes for this many. Half of the VMs are members, in
// groups of ten.
type fleet struct {
	*httptest.Server
	groups int

	mu         sync.Mutex
	objects    map[string]*entity
	changes    []change
	changed    chan struct{} // closed at the next change
	collectors map[string]*collected
	pages      map[string]*pages
	poweredOn  map[string]chan time.Time
	serial     int
}

// entity is one object. Children are by the path that leads to them.
type entity struct {
	ref      types.ManagedObjectReference
	name     string
	parent   *entity
	children map[string][]*entity
	vm       *machine
}

type machine struct {
	id, stamp, ip string
	off, template bool
	version       int
	boot          time.Time
}

type change struct {
	at    *entity
	paths []string
}

// collected is a property collector: its filter, what it has reported, and where in the changes it is.
type collected struct {
	spec    *types.PropertyFilterSpec
	first   []*entity
	begun   bool
	seen    int
	version int
	last    string // the answer with that version: its caller may have gone, and asks again from the one before
	cancel  chan struct{}
}

type pages struct {
	objects []*entity
	spec    []types.PropertyFilterSpec
}

const (
	fleetPage = 100
	perGroup  = 10
)

func newFleet(vms int) *fleet {
	f := &fleet{groups: max(1, vms/2/perGroup), objects: map[string]*entity{}, changed: make(chan struct{}), collectors: map[string]*collected{},
		pages: map[string]*pages{}, poweredOn: map[string]chan time.Time{}}
	root := f.add("Folder", "group-d1", "Datacenters", nil, "")
	dc := f.add("Datacenter", "datacenter-2", "DC0", root, "childEntity")
	vmFolder := f.add("Folder", "group-v3", "vm", dc, "vmFolder")
	hosts := f.add("Folder", "group-h4", "host", dc, "hostFolder")
	f.add("Folder", "group-s5", "datastore", dc, "datastoreFolder")
	f.add("Folder", "group-n6", "network", dc, "networkFolder")
	cluster := f.add("ClusterComputeResource", "domain-c7", "C0", hosts, "childEntity")
	f.add("ResourcePool", "resgroup-8", "Resources", cluster, "resourcePool")
	for i := range max(2, vms/40) {
		f.add("HostSystem", fmt.Sprintf("host-%d", 100+i), fmt.Sprintf("esx-%03d.example.com", i), cluster, "host")
	}
	serial := 100000
	next := func(kind string) string {
		serial++
		return fmt.Sprintf("%s-%d", map[string]string{"Folder": "group-v", "VirtualMachine": "vm"}[kind], serial)
	}
	template := f.add("VirtualMachine", next("VirtualMachine"), "vm-operator-template", vmFolder, "childEntity")
	template.vm = &machine{id: uuid.NewString(), template: true, off: true}
	operator := f.add("Folder", next("Folder"), "vm-operator", vmFolder, "childEntity")
	revision := plan.Revision(&v1alpha1.VmGroupSpec{Template: "vm-operator-template"})
	var namespace *entity
	for g := range f.groups {
		if g%100 == 0 {
			namespace = f.add("Folder", next("Folder"), fmt.Sprintf("ns%d", g/100), operator, "childEntity")
		}
		folder := f.add("Folder", next("Folder"), fmt.Sprintf("g%d", g), namespace, "childEntity")
		for o := range int32(perGroup) {
			vm := f.add("VirtualMachine", next("VirtualMachine"), plan.MemberName(folder.name, o), folder, "childEntity")
			id := uuid.NewString()
			s := stamp.Stamp{Namespace: namespace.name, Name: folder.name, UID: uid(g), Ordinal: o, Generation: 1, Revision: revision, RevisionAlgorithm: plan.RevisionAlgorithm,
				InstanceUUID: id, VCenter: fleetUUID, Created: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
				Disks: "2000=6000C29e-0f9e-57b0-9f1c-3c4b5a697887 2001=6000C296-1f2e-37b0-9f1c-3c4b5a697887"}
			vm.vm = &machine{id: id, stamp: html.EscapeString(s.Encode()), ip: fmt.Sprintf("10.%d.%d.%d", g/250, g%250, o+1), boot: time.Date(2026, 1, 2, 3, 5, 0, 0, time.UTC)}
		}
	}
	var folder *entity
	for i := range vms - f.groups*perGroup {
		if i%100 == 0 {
			folder = f.add("Folder", next("Folder"), fmt.Sprintf("team-%d", i/100), vmFolder, "childEntity")
		}
		vm := f.add("VirtualMachine", next("VirtualMachine"), fmt.Sprintf("app-server-%05d", i), folder, "childEntity")
		vm.vm = &machine{id: uuid.NewString(), ip: fmt.Sprintf("10.2%02d.%d.%d", i/25000, i/250%100, i%250+1), boot: time.Date(2026, 1, 2, 3, 5, 0, 0, time.UTC)}
	}
	f.Server = httptest.NewUnstartedServer(http.HandlerFunc(f.serve))
	f.StartTLS()
	return f
}

const fleetUUID = "5a0e5a6c-7c4b-4d5f-9f0e-000000000001"

func (f *fleet) add(kind, moRef, name string, parent *entity, path string) *entity {
	e := &entity{ref: types.ManagedObjectReference{Type: kind, Value: moRef}, name: name, parent: parent}
	f.objects[moRef] = e
	if parent != nil {
		if parent.children == nil {
			parent.children = map[string][]*entity{}
		}
		parent.children[path] = append(parent.children[path], e)
	}
	return e
}

// child finds an object by its name below another.
func (e *entity) child(name string) *entity {
	if e != nil {
		for _, all := range e.children {
			for _, x := range all {
				if x.name == name {
					return x
				}
			}
		}
	}
	return nil
}

// host is the one that a VM is on.
func (f *fleet) host(e *entity) *entity {
	hosts := f.objects["domain-c7"].children["host"]
	sum := 0
	for _, c := range e.ref.Value {
		sum = sum*31 + int(c)
	}
	return hosts[sum%len(hosts)]
}

// value is a property as XML; empty if it is unset.
func (f *fleet) value(e *entity, path string) string {
	text := func(kind, v string) string { return `<val xsi:type="` + kind + `">` + v + `</val>` }
	ref := func(x *entity) string {
		return `<val xsi:type="ManagedObjectReference" type="` + x.ref.Type + `">` + x.ref.Value + `</val>`
	}
	many := func(all []*entity) string {
		var b strings.Builder
		b.WriteString(`<val xsi:type="ArrayOfManagedObjectReference">`)
		for _, x := range all {
			b.WriteString(`<ManagedObjectReference xsi:type="ManagedObjectReference" type="` + x.ref.Type + `">` + x.ref.Value + `</ManagedObjectReference>`)
		}
		return b.String() + `</val>`
	}
	m := e.vm
	switch path {
	case "name":
		return text("xsd:string", e.name)
	case "parent":
		if e.parent == nil {
			return ""
		}
		return ref(e.parent)
	case "childEntity", "host":
		return many(e.children[path])
	case "vmFolder", "hostFolder", "datastoreFolder", "networkFolder", "resourcePool":
		return ref(e.children[path][0])
	case "configurationEx":
		return `<val xsi:type="ClusterConfigInfoEx"><dasConfig></dasConfig><drsConfig><enabled>false</enabled></drsConfig></val>`
	}
	if m == nil {
		return ""
	}
	switch path {
	case "config.template":
		return text("xsd:boolean", fmt.Sprint(m.template))
	case "config.instanceUuid":
		return text("xsd:string", m.id)
	case stamp.Path:
		if m.stamp == "" {
			return ""
		}
		return `<val xsi:type="OptionValue"><key>` + stamp.Key + `</key><value xsi:type="xsd:string">` + m.stamp + `</value></val>`
	case "runtime.connectionState":
		return text("VirtualMachineConnectionState", "connected")
	case "config.changeVersion":
		return text("xsd:string", fmt.Sprintf("2026-01-02T03:04:05.%06dZ", m.version))
	case "config.hardware.numCPU":
		return text("xsd:int", "2")
	case "config.hardware.memoryMB":
		return text("xsd:int", "4096")
	case "config.hardware.numCoresPerSocket":
		return text("xsd:int", "1")
	case "config.cpuHotAddEnabled", "config.memoryHotAddEnabled", "config.hardware.autoCoresPerSocket":
		return text("xsd:boolean", "true")
	case "config.hotPlugMemoryLimit":
		return text("xsd:long", "65536")
	case "runtime.powerState":
		return text("VirtualMachinePowerState", map[bool]string{true: "poweredOff", false: "poweredOn"}[m.off])
	case "runtime.bootTime":
		if m.off {
			return ""
		}
		return text("xsd:dateTime", m.boot.Format(time.RFC3339Nano))
	case "runtime.host":
		return ref(f.host(e))
	case "guest.ipAddress":
		return text("xsd:string", m.ip)
	case "guest.toolsRunningStatus":
		return text("xsd:string", "guestToolsRunning")
	case "guest.net":
		return `<val xsi:type="ArrayOfGuestNicInfo"><GuestNicInfo xsi:type="GuestNicInfo"><network>VM Network</network><ipAddress>` + m.ip +
			`</ipAddress><ipAddress>fe80::250:56ff:fea1:2b3c</ipAddress><macAddress>00:50:56:a1:2b:3c</macAddress><connected>true</connected><deviceConfigId>4000</deviceConfigId>` +
			`<ipConfig><ipAddress><ipAddress>` + m.ip + `</ipAddress><prefixLength>16</prefixLength><state>preferred</state></ipAddress>` +
			`<ipAddress><ipAddress>fe80::250:56ff:fea1:2b3c</ipAddress><prefixLength>64</prefixLength><state>unknown</state></ipAddress></ipConfig></GuestNicInfo></val>`
	case "config.files.vmPathName":
		return text("xsd:string", "[datastore-1] "+e.name+"/"+e.name+".vmx")
	case "summary.config.numVirtualDisks":
		return text("xsd:int", "2")
	case "config.hardware.device":
		var b strings.Builder
		for i, id := range []string{"6000C29e-0f9e-57b0-9f1c-3c4b5a697887", "6000C296-1f2e-37b0-9f1c-3c4b5a697887"} {
			fmt.Fprintf(&b, `<VirtualDevice xsi:type="VirtualDisk"><key>%d</key><deviceInfo><label>Hard disk %d</label><summary>16,777,216 KB</summary></deviceInfo>`+
				`<backing xsi:type="VirtualDiskFlatVer2BackingInfo"><fileName>[datastore-1] %s/%s_%d.vmdk</fileName><diskMode>persistent</diskMode><thinProvisioned>true</thinProvisioned>`+
				`<uuid>%s</uuid><contentId>8f1c3c4b5a6978870f9e57b0fffffffe</contentId></backing><controllerKey>1000</controllerKey><unitNumber>%d</unitNumber>`+
				`<capacityInKB>16777216</capacityInKB></VirtualDevice>`, 2000+i, i+1, e.name, e.name, i, id, i)
		}
		return `<val xsi:type="ArrayOfVirtualDevice">` + b.String() + `</val>`
	}
	return ""
}

// content are the properties of an object that a request asks for, each in a tag.
func (f *fleet) content(b *bytes.Buffer, e *entity, specs []types.PropertyFilterSpec, tag, middle string, only []string) {
	for _, spec := range specs {
		for _, p := range spec.PropSet {
			if p.Type != e.ref.Type && p.Type != "ManagedEntity" && !(p.Type == "ComputeResource" && e.ref.Type == "ClusterComputeResource") {
				continue
			}
			for _, path := range p.PathSet {
				if only != nil && !slices.Contains(only, path) {
					continue
				}
				if v := f.value(e, path); v != "" {
					b.WriteString("<" + tag + "><name>" + html.EscapeString(path) + "</name>" + middle + v + "</" + tag + ">")
				}
			}
		}
	}
}

func wants(specs []types.PropertyFilterSpec, e *entity) bool {
	for _, spec := range specs {
		for _, p := range spec.PropSet {
			if p.Type == e.ref.Type || p.Type == "ManagedEntity" || p.Type == "ComputeResource" && e.ref.Type == "ClusterComputeResource" {
				return true
			}
		}
	}
	return false
}

// selected are the objects that a request selects. gone is the first one that does not exist.
func (f *fleet) selected(specs []types.PropertyFilterSpec) (found []*entity, gone string) {
	had := map[*entity]bool{}
	take := func(e *entity) {
		if !had[e] && wants(specs, e) {
			found = append(found, e)
		}
		had[e] = true
	}
	for _, spec := range specs {
		for _, o := range spec.ObjectSet {
			e := f.objects[o.Obj.Value]
			if e == nil {
				if !strings.HasPrefix(o.Obj.Value, "group-d1") && o.Obj.Type != "ListView" && o.Obj.Type != "EventManager" && o.Obj.Type != "TaskManager" {
					gone = o.Obj.Value
				}
				continue
			}
			if o.Skip == nil || !*o.Skip {
				take(e)
			}
			named := map[string]*types.TraversalSpec{}
			var walk func(e *entity, set []types.BaseSelectionSpec)
			walk = func(e *entity, set []types.BaseSelectionSpec) {
				for _, s := range set {
					if t, is := s.(*types.TraversalSpec); is && t.Name != "" {
						named[t.Name] = t
					}
				}
				for _, s := range set {
					t, is := s.(*types.TraversalSpec)
					if !is {
						t = named[s.GetSelectionSpec().Name]
					}
					if t.Type != e.ref.Type && t.Type != "ManagedEntity" {
						continue
					}
					next := e.children[t.Path]
					if t.Path == "runtime.host" {
						next = []*entity{f.host(e)}
					}
					for _, x := range next {
						take(x)
						walk(x, t.SelectSet)
					}
				}
			}
			walk(e, o.SelectSet)
		}
	}
	return found, gone
}

// page answers with the next objects of a read.
func (f *fleet) page(b *bytes.Buffer, p *pages) {
	n := min(fleetPage, len(p.objects))
	if n < len(p.objects) {
		f.serial++
		token := fmt.Sprint("token-", f.serial)
		f.pages[token] = &pages{p.objects[n:], p.spec}
		b.WriteString("<token>" + token + "</token>")
	}
	for _, e := range p.objects[:n] {
		b.WriteString(`<objects><obj type="` + e.ref.Type + `">` + e.ref.Value + `</obj>`)
		f.content(b, e, p.spec, "propSet", "", nil)
		b.WriteString("</objects>")
	}
}

func (f *fleet) serve(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	method, err := simulator.UnmarshalBody(types.TypeFunc(), body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var b bytes.Buffer
	fault := f.take(r, &b, method)
	var out bytes.Buffer
	out.WriteString(xml.Header + `<soapenv:Envelope xmlns:soapenc="http://schemas.xmlsoap.org/soap/encoding/" xmlns:soapenv="http://schemas.xmlsoap.org/soap/envelope/" ` +
		`xmlns:xsd="http://www.w3.org/2001/XMLSchema" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"><soapenv:Body>`)
	if fault != "" {
		out.WriteString(`<soapenv:Fault><faultcode>ServerFaultCode</faultcode><faultstring>gone</faultstring><detail>` + fault + `</detail></soapenv:Fault>`)
		w.WriteHeader(http.StatusInternalServerError)
	} else {
		out.WriteString(`<` + method.Name + `Response xmlns="urn:vim25">`)
		out.Write(b.Bytes())
		out.WriteString(`</` + method.Name + `Response>`)
	}
	out.WriteString(`</soapenv:Body></soapenv:Envelope>`)
	_, _ = w.Write(out.Bytes())
}

func (f *fleet) take(r *http.Request, b *bytes.Buffer, method *simulator.Method) (fault string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if wait, is := method.Body.(*types.WaitForUpdatesEx); is {
		f.wait(r, b, wait) // it releases the lock meanwhile
		return ""
	}
	return f.answer(b, method)
}

func encoded(name string, v any) string {
	var b bytes.Buffer
	if err := xml.NewEncoder(&b).EncodeElement(v, xml.StartElement{Name: xml.Name{Local: name}}); err != nil {
		panic(err)
	}
	return b.String()
}

// answer answers all calls but WaitForUpdatesEx. The caller holds mu.
func (f *fleet) answer(b *bytes.Buffer, method *simulator.Method) (fault string) {
	returned := func(kind, value string) { b.WriteString(`<returnval type="` + kind + `">` + value + `</returnval>`) }
	switch req := method.Body.(type) {
	case *types.RetrieveServiceContent:
		own := func(kind string) *types.ManagedObjectReference {
			return &types.ManagedObjectReference{Type: kind, Value: kind}
		}
		b.WriteString(encoded("returnval", types.ServiceContent{RootFolder: f.objects["group-d1"].ref, PropertyCollector: *own("PropertyCollector"),
			ViewManager: own("ViewManager"), SessionManager: own("SessionManager"), EventManager: own("EventManager"), TaskManager: own("TaskManager"),
			SearchIndex: own("SearchIndex"), CustomFieldsManager: own("CustomFieldsManager"), CustomizationSpecManager: own("CustomizationSpecManager"),
			AuthorizationManager: own("AuthorizationManager"), FileManager: own("FileManager"), VirtualDiskManager: own("VirtualDiskManager"), StorageResourceManager: own("StorageResourceManager"),
			About: types.AboutInfo{Name: "VMware vCenter Server", ApiType: "VirtualCenter", ApiVersion: "8.0.2.0", InstanceUuid: fleetUUID, Version: "8.0.2", OsType: "linux-x64", ProductLineId: "vpx"}}))
	case *types.Login:
		b.WriteString(encoded("returnval", types.UserSession{Key: "key", UserName: "VSPHERE.LOCAL\\vmgroup", LoginTime: time.Now(), LastActiveTime: time.Now()}))
	case *types.CurrentTime:
		b.WriteString("<returnval>" + time.Now().UTC().Format(time.RFC3339Nano) + "</returnval>")
	case *types.CreatePropertyCollector:
		f.serial++
		f.collectors[fmt.Sprint("pc-", f.serial)] = &collected{cancel: make(chan struct{}), seen: len(f.changes)}
		returned("PropertyCollector", fmt.Sprint("pc-", f.serial))
	case *types.CreateFilter:
		f.collectors[req.This.Value].spec = &req.Spec
		returned("PropertyFilter", "filter-"+req.This.Value)
	case *types.DestroyPropertyCollector:
		if c := f.collectors[req.This.Value]; c != nil {
			close(c.cancel)
			delete(f.collectors, req.This.Value)
		}
	case *types.CancelWaitForUpdates:
		if c := f.collectors[req.This.Value]; c != nil {
			close(c.cancel)
			c.cancel = make(chan struct{})
		}
	case *types.RetrieveProperties: // of tasks, which all have ended
		for _, set := range req.SpecSet {
			for _, o := range set.ObjectSet {
				b.WriteString(`<returnval><obj type="Task">` + o.Obj.Value + `</obj><propSet><name>info.state</name><val xsi:type="TaskInfoState">success</val></propSet></returnval>`)
			}
		}
	case *types.FindChild:
		if x := f.objects[req.Entity.Value].child(req.Name); x != nil {
			returned(x.ref.Type, x.ref.Value)
		}
	case *types.FindByInventoryPath:
		at := f.objects["group-d1"]
		for name := range strings.SplitSeq(strings.Trim(req.InventoryPath, "/"), "/") {
			at = at.child(name)
		}
		if at != nil {
			returned(at.ref.Type, at.ref.Value)
		}
	case *types.RetrievePropertiesEx:
		found, gone := f.selected(req.SpecSet)
		report := req.SpecSet[0].ReportMissingObjectsInResults
		if gone != "" && (report == nil || !*report) {
			return `<ManagedObjectNotFoundFault xsi:type="ManagedObjectNotFound"><obj type="VirtualMachine">` + gone + `</obj></ManagedObjectNotFoundFault>`
		}
		if len(found) > 0 {
			b.WriteString("<returnval>")
			f.page(b, &pages{found, req.SpecSet})
			b.WriteString("</returnval>")
		}
	case *types.ContinueRetrievePropertiesEx:
		p := f.pages[req.Token]
		delete(f.pages, req.Token)
		b.WriteString("<returnval>")
		f.page(b, p)
		b.WriteString("</returnval>")
	case *types.PowerOnVM_Task:
		e := f.objects[req.This.Value]
		if called := f.poweredOn[req.This.Value]; called != nil {
			called <- time.Now()
			delete(f.poweredOn, req.This.Value)
		}
		e.vm.off = false
		e.vm.boot = time.Now().UTC()
		f.changes = append(f.changes, change{e, []string{"runtime.powerState", "runtime.bootTime"}})
		f.tell()
		f.serial++
		returned("Task", fmt.Sprint("task-", f.serial))
	case *types.Logout:
	default:
		panic("the model does not know " + method.Name)
	}
	return ""
}

// tell wakes the waits. The caller holds mu.
func (f *fleet) tell() {
	close(f.changed)
	f.changed = make(chan struct{})
}

// wait answers WaitForUpdatesEx. The caller holds mu.
func (f *fleet) wait(r *http.Request, b *bytes.Buffer, req *types.WaitForUpdatesEx) {
	c := f.collectors[req.This.Value]
	if c == nil || c.spec == nil {
		return
	}
	if c.version > 0 && req.Version != strconv.Itoa(c.version) {
		b.WriteString(c.last)
		return
	}
	before := b.Len()
	defer func() {
		if b.Len() > before {
			c.last = b.String()[before:]
		}
	}()
	specs := []types.PropertyFilterSpec{*c.spec}
	tasks := c.spec.PropSet[0].Type == "Task"
	if !c.begun {
		c.begun = true
		c.first, _ = f.selected(specs)
	}
	begin := func(more bool) {
		c.version++
		fmt.Fprintf(b, "<returnval><version>%d</version><truncated>%v</truncated><filterSet><filter type=\"PropertyFilter\">filter-%s</filter>", c.version, more, req.This.Value)
	}
	if n := min(fleetPage, len(c.first)); n > 0 {
		begin(n < len(c.first))
		for _, e := range c.first[:n] {
			b.WriteString(`<objectSet><kind>enter</kind><obj type="` + e.ref.Type + `">` + e.ref.Value + `</obj>`)
			f.content(b, e, specs, "changeSet", "<op>assign</op>", nil)
			b.WriteString("</objectSet>")
		}
		c.first = c.first[n:]
		b.WriteString("</filterSet></returnval>")
		return
	}
	end := time.After(time.Duration(*req.Options.MaxWaitSeconds) * time.Second)
	for {
		var due []change
		for ; c.seen < len(f.changes) && len(due) < fleetPage; c.seen++ {
			if x := f.changes[c.seen]; (x.at.ref.Type == "Task") == tasks {
				due = append(due, x)
			}
		}
		if len(due) > 0 {
			begin(false)
			for _, x := range due {
				if tasks {
					b.WriteString(`<objectSet><kind>enter</kind><obj type="Task">` + x.at.ref.Value + `</obj><changeSet><name>info.state</name><op>assign</op><val xsi:type="TaskInfoState">success</val></changeSet>` +
						`<changeSet><name>info.completeTime</name><op>assign</op><val xsi:type="xsd:dateTime">` + time.Now().UTC().Format(time.RFC3339Nano) + `</val></changeSet></objectSet>`)
					continue
				}
				b.WriteString(`<objectSet><kind>modify</kind><obj type="` + x.at.ref.Type + `">` + x.at.ref.Value + `</obj>`)
				f.content(b, x.at, specs, "changeSet", "<op>assign</op>", x.paths)
				b.WriteString("</objectSet>")
			}
			b.WriteString("</filterSet></returnval>")
			return
		}
		changed, cancel := f.changed, c.cancel
		f.mu.Unlock()
		over := false
		select {
		case <-changed:
		case <-cancel:
			over = true
		case <-end:
			over = true
		case <-r.Context().Done():
			over = true
		}
		f.mu.Lock()
		if over {
			return
		}
	}
}

// PowerOff powers a member off, and returns how long it took until the server called to power it on again.
func (f *fleet) PowerOff(group, ordinal int) (time.Duration, bool) {
	f.mu.Lock()
	vm := f.member(group, ordinal)
	called := make(chan time.Time, 1)
	f.poweredOn[vm.ref.Value] = called
	vm.vm.off = true
	began := time.Now()
	f.changes = append(f.changes, change{vm, []string{"runtime.powerState", "runtime.bootTime"}})
	f.tell()
	f.mu.Unlock()
	select {
	case at := <-called:
		return at.Sub(began), true
	case <-time.After(30 * time.Second):
		return 0, false
	}
}

// member finds a member. The caller holds mu.
func (f *fleet) member(group, ordinal int) *entity {
	operator := f.objects["group-v3"].children["childEntity"][1]
	return operator.children["childEntity"][group/100].children["childEntity"][group%100].children["childEntity"][ordinal]
}
