package pages

// The limits in this file bound the resources that one list can use. Package transport bounds each
// response. The fractions were measured on objects of real control planes, including their
// managedFields.
const (
	// MaxObjects bounds the objects in a list; no shoot has as many machines.
	MaxObjects = 20_000
	// MaxPages bounds the pages of a list, which need not be full. A list with a smaller page size
	// may have as many pages as MaxObjects fill.
	MaxPages = 200
	// MaxPage bounds the bytes of a page. The metadata of 500 VirtualMachines take a fifth of it.
	MaxPage = 8 << 20

	// perPage is the default number of objects per page.
	perPage = 500
	// maxList is the default bound on the bytes of all pages of a list, which take time to decode. The
	// metadata of 10,000 VirtualMachines reach this size.
	maxList = 32 << 20
	// costPerByte bounds the memory that all pages of a list take after decoding, one after the other, and
	// so the time to decode them, by the bytes that they may have. Whole VirtualMachines and DataVolumes
	// take ten bytes for each byte of their JSON; an empty object in an array takes three hundred.
	costPerByte = 16
	// maxKept is the default bound on the memory of what is kept of a list.
	maxKept = 32 << 20
)
