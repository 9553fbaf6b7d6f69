package v1alpha1

import "strings"

// GroupsFolder is the folder in spec.placement.folder that contains <namespace>/<group>. The path in spec.placement.folder can't have this
// name, so no group's folder can be inside another group's.
const GroupsFolder = "vmgroups"

// IsGroupsFolder reports whether a folder's name is GroupsFolder for vCenter, which ignores case.
func IsGroupsFolder(name string) bool { return strings.EqualFold(name, GroupsFolder) }

// Bounds of the fields for placement and identity.
const (
	// MaxInventoryPath bounds a name or inventory path in vCenter, in characters.
	MaxInventoryPath = 1024
	// MaxVimName bounds a vSphere name (of a snapshot, a specification, a tag, an attribute), in characters.
	MaxVimName = 80
	// MaxZones bounds spec.placement.zones.
	MaxZones = 32
	// MaxHostGroups bounds spec.placement.hostGroup.names: each name adds a DRS VM group and a rule to a cluster that all tenants share.
	MaxHostGroups = 8
	// MaxNetworks is the most network adapters of a VM (VMware Configuration Maximums, vSphere 8: 10).
	MaxNetworks = 10
	// MaxRanges bounds the entries of a list of address ranges, MaxNameservers those of the DNS lists.
	MaxRanges      = 64
	MaxNameservers = 8
	// MaxAdditionalRanges bounds an adapter's additional addresses in each family.
	MaxAdditionalRanges = 8
	// MaxAddress bounds an IP address, in characters ("ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255" is the longest
	// way to write one), and MaxRange two of them with " - " between.
	MaxAddress = 45
	MaxRange   = 2*MaxAddress + 3
	// MaxDomain bounds DNS names, names of Secrets and ConfigMaps, and their keys, in characters (as Kubernetes does).
	MaxDomain = 253
	// MaxMarks bounds each of spec.tags, spec.customAttributes and spec.extraConfig.
	MaxMarks = 20
	// MaxAttributeValue bounds the value of a custom attribute, in characters.
	MaxAttributeValue = 255
	// MaxExtraKey and MaxExtraValue bound the keys and values of spec.extraConfig, in characters; MaxMarks bounds their number.
	MaxExtraKey   = 128
	MaxExtraValue = 1024
	// MaxServicePorts bounds spec.service.ports.
	MaxServicePorts = 100
	// DefaultUserDataKey is the key of the Secret or ConfigMap that contains user data.
	DefaultUserDataKey = "user-data"
)

// CloneMode says how the disks of a member are created.
// +kubebuilder:validation:Enum=Full;Linked
type CloneMode string

// The clone modes.
const (
	// CloneFull copies the template's disks.
	CloneFull CloneMode = "Full"
	// CloneLinked creates child disks of a snapshot of the template.
	CloneLinked CloneMode = "Linked"
)

// Clone says how members are cloned.
type Clone struct {
	// mode is Full (the default), which copies the template's disks, or Linked, which creates child disks of a snapshot within seconds. Keep
	// the template and the snapshot of linked clones as long as the group has members.
	// +default="Full"
	// +optional
	Mode CloneMode `json:"mode,omitempty"`
	// snapshot of the template to clone from: its name or path ("base/patched"), of at most 1024 characters. Default: with Linked the current
	// snapshot, with Full the template's current disks.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Snapshot string `json:"snapshot,omitempty"`
}

// AntiAffinity says whether members are kept on different hosts.
// +kubebuilder:validation:Enum=None;Preferred;Required
type AntiAffinity string

// The kinds of anti-affinity.
const (
	AntiAffinityNone      AntiAffinity = "None"
	AntiAffinityPreferred AntiAffinity = "Preferred"
	AntiAffinityRequired  AntiAffinity = "Required"
)

// HostRule says how strictly members are bound to their host group.
// +kubebuilder:validation:Enum=Preferred;Required
type HostRule string

// The kinds of rules for a host group.
const (
	HostRulePreferred HostRule = "Preferred"
	HostRuleRequired  HostRule = "Required"
)

// HostGroup binds members to DRS host groups: to the hosts at one site of a stretched cluster, for example, or to hosts with a license.
type HostGroup struct {
	// names are DRS host groups of the members' cluster: at most 8, each of at most 80 characters. Name one for all members, or several different
	// ones to spread members evenly: the member with ordinal n runs on the group at index n mod count. With zones, name one group for all zones or
	// one for each zone.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=80
	// +listType=atomic
	// +required
	Names []string `json:"names"`
	// rule is Preferred (the default: DRS runs members on other hosts if necessary) or Required (members run on no other hosts: vCenter
	// doesn't power a member on, and vSphere HA doesn't restart it, where that would break the rule).
	// +default="Preferred"
	// +optional
	Rule HostRule `json:"rule,omitempty"`
}

// Placement says where members run. For fields that are not set, the server's settings apply. Fields identify objects of vCenter by name or
// inventory path.
//
// +kubebuilder:validation:XValidation:rule="self.?pool.orValue(\"\") == \"\" || self.?zones.orValue([]).size() == 0",message="zones and pool exclude each other: name the pool as one of zones, or remove one of them",fieldPath=".zones",reason=FieldValueInvalid
// +kubebuilder:validation:XValidation:rule="!has(self.hostGroup) || self.?zones.orValue([]).size() > 0 || self.hostGroup.names.all(name, self.hostGroup.names.exists_one(other, other == name))",message="must not name a host group twice: members spread over different ones",fieldPath=".hostGroup.names",reason=FieldValueInvalid
// +kubebuilder:validation:XValidation:rule="!has(self.hostGroup) || self.?zones.orValue([]).size() == 0 || self.hostGroup.names.size() == 1 || self.hostGroup.names.size() == self.zones.size()",message="name one host group for all zones, or one for each of them, in their order",fieldPath=".hostGroup.names",reason=FieldValueInvalid
type Placement struct {
	// datacenter is the name or inventory path of the members' datacenter, of at most 1024 characters. It cannot change while the group has
	// members.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Datacenter string `json:"datacenter,omitempty"`
	// pool is the cluster, host or resource pool that members run in: its name or inventory path ("/DC0/host/C0/Resources/web"), of at most
	// 1024 characters.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Pool string `json:"pool,omitempty"`
	// datastore is the datastore or datastore cluster for members' disks: its name or inventory path, of at most 1024 characters. If neither
	// this field nor the server's settings name one, members use the template's datastore.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Datastore string `json:"datastore,omitempty"`
	// storagePolicy is the name of the VM storage policy of members' files and disks, of at most 80 characters.
	// +kubebuilder:validation:MaxLength=80
	// +optional
	StoragePolicy string `json:"storagePolicy,omitempty"`
	// folder is a path below the datacenter's VM folder ("teams/shop"), in which the server creates the group's folder
	// vmgroups/<namespace>/<group>. Each name in the path has at most 80 characters and no leading or trailing blanks, the path at most 1024
	// characters, and no name is vmgroups. It cannot change while the group has members.
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule=`!self.matches(r'[\p{C}\p{Zl}\p{Zp}]')`,message="must not have control characters or other invisible ones"
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('/')",message="must be a path below the datacenter's VM folder, such as teams/shop: omit the leading '/' and the datacenter's name"
	// +kubebuilder:validation:XValidation:rule="self == '' || self.startsWith('/') || self.split('/').all(name, name.size() >= 1 && name.size() <= 80 && name != '.' && name != '..')",message="must be names of 1 to 80 characters separated by '/', such as teams/shop; '.' and '..' are not names"
	// +kubebuilder:validation:XValidation:rule="self.split('/').all(name, name.trim() == name)",message="must not have names with leading or trailing blanks"
	// +kubebuilder:validation:XValidation:rule="!self.lowerAscii().split('/').exists(name, name == 'vmgroups')",message="must not have a folder vmgroups: the server creates that one in it, for the groups' folders"
	// +optional
	Folder string `json:"folder,omitempty"`
	// zones are clusters, hosts or resource pools, by name or inventory path, that members spread evenly over: at most 32. Excludes pool. The
	// member with ordinal n runs in the zone at index n mod count.
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:XValidation:rule="self.all(zone, self.exists_one(other, other == zone))",message="must not name a zone twice: members spread over different ones"
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=1024
	// +listType=atomic
	// +optional
	Zones []string `json:"zones,omitempty"`
	// antiAffinity keeps members on different hosts with a DRS rule: None (the default), Preferred, or Required (vCenter doesn't power a
	// member on where that would break the rule).
	// +default="None"
	// +optional
	AntiAffinity AntiAffinity `json:"antiAffinity,omitempty"`
	// hostGroup binds members to DRS host groups of their cluster with a VM-host rule.
	// +optional
	HostGroup *HostGroup `json:"hostGroup,omitempty"`
}

// Network is one network adapter of each member.
//
// +kubebuilder:validation:XValidation:rule="!(self.?dhcp.orValue(false) && has(self.ipv4))",message="an adapter has its IPv4 address from DHCP or from ipv4: remove one of them",fieldPath=".dhcp",reason=FieldValueInvalid
type Network struct {
	// network is the network that the adapter is connected to, by name or inventory path: a standard network, a
	// distributed port group, or an opaque (NSX) network. At most 1024 characters.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +required
	Network string `json:"network"`
	// dhcp requests an IPv4 address by DHCP. Default: true if neither ipv4 nor ipv6 is set. Excludes ipv4. If dhcp is false and neither ipv4
	// nor ipv6 is set, the adapter gets no address, as for a bridge or a passive interface; customizationSpec excludes such adapters.
	// +optional
	DHCP *bool `json:"dhcp,omitempty"`
	// ipv4 gives each member a static address.
	// +kubebuilder:validation:XValidation:rule="!has(self.additionalRanges) || !self.additionalRanges.exists(r, r.contains(':'))",message="must be IPv4 addresses: IPv6 ones go into ipv6",fieldPath=".additionalRanges",reason=FieldValueInvalid
	// +kubebuilder:validation:XValidation:rule="self.prefixLength <= 32",message="must be between 1 and 32 for IPv4",fieldPath=".prefixLength",reason=FieldValueInvalid
	// +kubebuilder:validation:XValidation:rule="!self.ranges.exists(r, r.contains(':'))",message="must be IPv4 addresses: IPv6 ones go into ipv6",fieldPath=".ranges",reason=FieldValueInvalid
	// +kubebuilder:validation:XValidation:rule="!has(self.gateway) || !self.gateway.contains(':')",message="must be an IPv4 address: an IPv6 one goes into ipv6",fieldPath=".gateway",reason=FieldValueInvalid
	// +optional
	IPv4 *Addresses `json:"ipv4,omitempty"`
	// ipv6 gives each member a static address.
	// +kubebuilder:validation:XValidation:rule="!has(self.additionalRanges) || self.additionalRanges.all(r, r.contains(':'))",message="must be IPv6 addresses: IPv4 ones go into ipv4",fieldPath=".additionalRanges",reason=FieldValueInvalid
	// +kubebuilder:validation:XValidation:rule="self.ranges.all(r, r.contains(':'))",message="must be IPv6 addresses: IPv4 ones go into ipv4",fieldPath=".ranges",reason=FieldValueInvalid
	// +kubebuilder:validation:XValidation:rule="!has(self.gateway) || self.gateway == '' || self.gateway.contains(':')",message="must be an IPv6 address: an IPv4 one goes into ipv4",fieldPath=".gateway",reason=FieldValueInvalid
	// +optional
	IPv6 *Addresses `json:"ipv6,omitempty"`
	// nameservers are the IP addresses of DNS servers, IPv4 or IPv6: at most 8.
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=45
	// +kubebuilder:validation:items:XValidation:rule="isIP(self)",message="must be an IP address, such as 10.0.0.53"
	// +listType=atomic
	// +optional
	Nameservers []string `json:"nameservers,omitempty"`
	// searchDomains are the DNS search domains: at most 8, in lower case.
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:items:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be a DNS name in lower case, such as shop.example.com"
	// +listType=atomic
	// +optional
	SearchDomains []string `json:"searchDomains,omitempty"`
}

// Addresses gives each member a static address: the member with ordinal n has the n-th address (from 0) of all ranges together. A group
// needs one address for each ordinal: replicas + standby, and during updates also maxSurge.
type Addresses struct {
	// ranges are addresses ("10.0.0.7") and ranges ("10.0.0.10-10.0.0.59"): at most 64, all in one network. No two can overlap.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=93
	// +kubebuilder:validation:items:XValidation:rule="(self.contains('-') ? [self.substring(0, self.indexOf('-')), self.substring(self.indexOf('-') + 1)] : [self]).all(a, isIP(a.trim()))",message="must be an address, such as 10.0.0.7, or a range of addresses, such as 10.0.0.10-10.0.0.59"
	// +kubebuilder:validation:items:XValidation:rule="self.contains(':') || !self.contains('-') || !isIP(self.substring(0, self.indexOf('-')).trim()) || !isIP(self.substring(self.indexOf('-') + 1).trim()) || self.substring(0, self.indexOf('-')).trim().substring(0, self.substring(0, self.indexOf('-')).trim().lastIndexOf('.')) != self.substring(self.indexOf('-') + 1).trim().substring(0, self.substring(self.indexOf('-') + 1).trim().lastIndexOf('.')) || int(self.substring(0, self.indexOf('-')).trim().substring(self.substring(0, self.indexOf('-')).trim().lastIndexOf('.') + 1)) <= int(self.substring(self.indexOf('-') + 1).trim().substring(self.substring(self.indexOf('-') + 1).trim().lastIndexOf('.') + 1))",message="must be a range whose first address is not above its last"
	// +kubebuilder:validation:items:XValidation:rule="(self.contains('-') ? [self.substring(0, self.indexOf('-')), self.substring(self.indexOf('-') + 1)] : [self]).all(a, !isIP(a.trim()) || ip(a.trim()).isGlobalUnicast())",message="must be addresses for one machine each: not 0.0.0.0 or ::, nor loopback, link-local, multicast or broadcast"
	// +listType=atomic
	// +required
	Ranges []string `json:"ranges"`
	// additionalRanges give each member one more address for each entry ("10.0.0.110-10.0.0.159"): the member with ordinal n has the entry's
	// n-th address (from 0). At most 8 entries, in the same network as ranges.
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=93
	// +kubebuilder:validation:items:XValidation:rule="(self.contains('-') ? [self.substring(0, self.indexOf('-')), self.substring(self.indexOf('-') + 1)] : [self]).all(a, isIP(a.trim()))",message="must be an address, such as 10.0.0.7, or a range of addresses, such as 10.0.0.10-10.0.0.59"
	// +kubebuilder:validation:items:XValidation:rule="self.contains(':') || !self.contains('-') || !isIP(self.substring(0, self.indexOf('-')).trim()) || !isIP(self.substring(self.indexOf('-') + 1).trim()) || self.substring(0, self.indexOf('-')).trim().substring(0, self.substring(0, self.indexOf('-')).trim().lastIndexOf('.')) != self.substring(self.indexOf('-') + 1).trim().substring(0, self.substring(self.indexOf('-') + 1).trim().lastIndexOf('.')) || int(self.substring(0, self.indexOf('-')).trim().substring(self.substring(0, self.indexOf('-')).trim().lastIndexOf('.') + 1)) <= int(self.substring(self.indexOf('-') + 1).trim().substring(self.substring(self.indexOf('-') + 1).trim().lastIndexOf('.') + 1))",message="must be a range whose first address is not above its last"
	// +kubebuilder:validation:items:XValidation:rule="(self.contains('-') ? [self.substring(0, self.indexOf('-')), self.substring(self.indexOf('-') + 1)] : [self]).all(a, !isIP(a.trim()) || ip(a.trim()).isGlobalUnicast())",message="must be addresses for one machine each: not 0.0.0.0 or ::, nor loopback, link-local, multicast or broadcast"
	// +listType=atomic
	// +optional
	AdditionalRanges []string `json:"additionalRanges,omitempty"`
	// prefixLength of the network, such as 24: 1 to 32 for IPv4, 1 to 128 for IPv6.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=128
	// +required
	PrefixLength int32 `json:"prefixLength"`
	// gateway is the address of the default gateway: in the members' network or, with IPv6, link-local ("fe80::1"), and outside all ranges.
	// +kubebuilder:validation:MaxLength=45
	// +kubebuilder:validation:XValidation:rule="self == '' || isIP(self)",message="must be an IP address, such as 10.0.0.1"
	// +optional
	Gateway string `json:"gateway,omitempty"`
}

// UserData names a Secret or ConfigMap of the group's namespace that contains user data for cloud-init, or a config for Ignition in JSON
// (Flatcar, Fedora CoreOS). If the first line of user data is "## template: jinja", cloud-init fills in {{ ds.meta_data.ordinal }}, and
// likewise group, namespace, hostname, instance_id and zone. Ignition has no templates.
//
// +kubebuilder:validation:XValidation:rule="has(self.secretKeyRef) || has(self.configMapKeyRef)",message="name a Secret's key with secretKeyRef, or a ConfigMap's with configMapKeyRef",fieldPath=".secretKeyRef",reason=FieldValueRequired
// +kubebuilder:validation:XValidation:rule="!(has(self.secretKeyRef) && has(self.configMapKeyRef))",message="secretKeyRef and configMapKeyRef exclude each other: remove one of them",fieldPath=".configMapKeyRef",reason=FieldValueInvalid
type UserData struct {
	// secretKeyRef names a key of a Secret.
	// +optional
	SecretKeyRef *KeyRef `json:"secretKeyRef,omitempty"`
	// configMapKeyRef names a key of a ConfigMap.
	// +optional
	ConfigMapKeyRef *KeyRef `json:"configMapKeyRef,omitempty"`
}

// KeyRef names a key of a Secret or ConfigMap in the group's namespace.
type KeyRef struct {
	// name of the Secret or ConfigMap.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be the name of a Secret or ConfigMap: a-z, 0-9, '-' and '.', with a letter or digit at both ends"
	// +required
	Name string `json:"name"`
	// key in the Secret or ConfigMap: letters, digits, '-', '_' and '.'; default user-data.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^[-._a-zA-Z0-9]+$') && self != '.' && !self.startsWith('..')",message="must be a key of a Secret or ConfigMap: letters, digits, '-', '_' and '.', not beginning with '..'"
	// +default="user-data"
	// +optional
	Key string `json:"key,omitempty"`
}

// Tag is a vSphere tag.
//
// +kubebuilder:validation:XValidation:rule="!self.?create.orValue(false) || self.category.trim() == self.category && self.name.trim() == self.name",message="must not have leading or trailing blanks in the category or the name if the server creates the tag",fieldPath=".name",reason=FieldValueInvalid
type Tag struct {
	// category of the tag.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=80
	// +required
	Category string `json:"category"`
	// name of the tag.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=80
	// +required
	Name string `json:"name"`
	// create the tag, and its category, if they are missing. Default false: a missing tag is an error.
	// +optional
	Create bool `json:"create,omitempty"`
}
