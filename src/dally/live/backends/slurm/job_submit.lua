-- Written by `dally slurm setup`, removed by `dally slurm rollback`. Do not edit: that would stop the roll-back.
-- Jobs that ask for GPUs arrive held. `dally serve` alone releases them, with the machines to run on.
local PARTITIONS = {--[[partitions]]}  -- none: all of them
local OPERATORS = {--[[operators]]}  -- user ids that may release jobs
-- What Dally does not model: name, field, test, values. The list is src/dally/live/backends/slurm/left_alone.py.
local LEFT_ALONE = {--[[left alone]]}
local FACTS = {--[[facts]]}
local DENIED = slurm.ESLURM_ACCESS_DENIED or slurm.ERROR
local NEVER = 4102444800  -- 2100: when a job may begin that its user holds
local UNSET = {[4294967294] = true, [4294967295] = true, [65534] = true, [65535] = true}
local GPU_FIELDS = {"tres_per_job", "tres_per_node", "tres_per_task", "tres_per_socket"}

local function stated(value)
  return type(value) == "number" and not UNSET[value] and value < 1.8e19
end

local function fits(value, test, values)
  if test == "stated" then return stated(value) end
  if test == "set" then
    if type(value) == "number" then return stated(value) and value ~= 0 end
    return value ~= nil and value ~= false and value ~= ""
  end
  for _, one in ipairs(values) do
    if test == "one of" and value == one then return true end
    if test == "contains" and string.find(value or "", one, 1, true) then return true end
  end
  return false
end

-- Whether the job asks for GPUs at all, and which row of the list its resources fit.
local function gpus_of(job)
  local named, gpus, others, kind, kinds = false, 0, false, nil, 0
  for _, field in ipairs(GPU_FIELDS) do
    for item in string.gmatch(job[field] or "", "[^,]+") do
      local plain = string.gsub(string.gsub(item, "^gres[:/]", ""), "=", ":")
      if string.match(plain, "^[^:]+") == "gpu" then
        named = true
        gpus = gpus + (tonumber(string.match(plain, ":(%d+)$")) or 1)
        local type_of = string.match(plain, "^gpu:([^:]*%D[^:]*)")
        if type_of and type_of ~= kind then kind, kinds = type_of, kinds + 1 end
      else
        others = true
      end
    end
  end
  if not named then return false, nil end
  if gpus == 0 then return true, "no-gpus" end
  if others then return true, "other-gres" end
  if kinds > 1 then return true, "gpu-types" end
  return true, nil
end

local function usual_partition(part_list)
  for name, partition in pairs(part_list) do
    if partition.flag_default == 1 then return name end
  end
  return ""
end

local function ours(job, part_list)
  if next(PARTITIONS) == nil then return true end
  for name in string.gmatch(job.partition or usual_partition(part_list), "[^,]+") do
    if not PARTITIONS[name] then return false end
  end
  return true
end

-- The first row of the list that the job fits; nil: Dally models it.
local function left_alone(job, gres)
  if gres then return gres end
  for _, row in ipairs(LEFT_ALONE) do
    if fits(job[row[2]], row[3], row[4]) then return row[1] end
  end
  return nil
end

-- What the script's #DALLY lines state, in the letters that a note may have.
local function facts_of(script)
  local found = ""
  for line in string.gmatch(script or "", "[^\r\n]+") do
    if string.find(line, "^#DALLY%s") then
      for name, value in string.gmatch(line, "([%a]+)=([%w%.%-_/:,]+)") do
        local key = name == "gpus" and "sizes" or name  -- in a note, gpus is what the job asks for
        if FACTS[name] and #value < 100 then found = found .. ";" .. key .. "=" .. value end
      end
    end
  end
  return found
end

function slurm_job_submit(job, part_list, user)
  local wants_gpus, gres = gpus_of(job)
  if not wants_gpus or not ours(job, part_list) then return slurm.SUCCESS end
  local left = left_alone(job, gres)
  if left then
    job.admin_comment = "dally-left:" .. left
    return slurm.SUCCESS
  end
  local note = "dally:submit=" .. os.time() .. ";read=1" .. facts_of(job.script)
  if stated(job.begin_time) and job.begin_time > os.time() then
    note = note .. ";begin=" .. string.format("%.0f", job.begin_time)
  end
  if job.priority == 0 and not OPERATORS[user] then
    job.begin_time = NEVER  -- its user holds it: sbatch -H
  elseif stated(job.priority) and job.priority ~= 0 then
    note = note .. ";priority=" .. string.format("%.0f", job.priority)
  end
  job.priority = 0
  job.admin_comment = note
  return slurm.SUCCESS
end

function slurm_job_modify(job, record, part_list, user)
  if OPERATORS[user] or not string.find(record.admin_comment or "", "dally:", 1, true) then return slurm.SUCCESS end
  if record.priority ~= 0 then return slurm.SUCCESS end
  if job.nice ~= nil and job.nice ~= slurm.NO_VAL then
    return DENIED  -- Slurm would take it for a release
  end
  if job.priority == 0 then
    job.begin_time = NEVER
  elseif job.priority == 4294967295 then  -- scontrol release: back into the queue
    job.priority = 0
    local begin = tonumber(string.match(record.admin_comment, ";begin=(%d+)") or "0")
    job.begin_time = math.max(begin, os.time())
  elseif job.priority ~= nil and job.priority ~= slurm.NO_VAL then
    return DENIED
  end
  return slurm.SUCCESS
end

return slurm.SUCCESS
